import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

let may: boolean | undefined;

/** Whether the tests may mount, which most containers forbid: what needs it is skipped there. */
export function mayMount(): boolean {
  if (may === undefined) {
    const folder = mkdtempSync(join(tmpdir(), "takeover-mount-"));
    try {
      mountTmpfs(folder, "size=64k");
      unmount(folder);
      may = true;
    } catch {
      may = false;
    }
    rmdirSync(folder);
  }
  return may;
}

/** Mounts a tmpfs at `path`, which is made for it. */
export function mountTmpfs(path: string, options: string): void {
  mkdirSync(path, { recursive: true });
  execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", path], { stdio: "ignore" });
}

export function remount(path: string, options: string): void {
  execFileSync("mount", ["-o", `remount,${options}`, path], { stdio: "ignore" });
}

export function unmount(path: string): void {
  execFileSync("umount", ["-l", path], { stdio: "ignore" });
}
