import { readdirSync, readFileSync } from "node:fs";

/** The processes that have `text` in their command line or environment, this one aside. */
export function processesOf(text: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((name) =>
      ["cmdline", "environ"].some((file) => {
        try {
          return readFileSync(`/proc/${name}/${file}`, "latin1").includes(text);
        } catch {
          return false; // Ended meanwhile, or another user's.
        }
      }),
    )
    .map(Number);
}
