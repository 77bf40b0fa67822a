import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** Everything below a folder with all that a write would change of it, the folder itself included. */
export function listing(folder: string): string[] {
  return [".", ...(readdirSync(folder, { recursive: true }) as string[])].sort().map((name) => {
    const { ino, mode, uid, gid, size, mtimeNs, ctimeNs } = lstatSync(join(folder, name), {
      bigint: true,
    });
    return [name, ino, mode, uid, gid, size, mtimeNs, ctimeNs].join(" ");
  });
}
