import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** The built program, as an operator runs it. */
export const MAIN = fileURLToPath(new URL("../../dist/src/main.js", import.meta.url));

export interface Ran {
  readonly code: number | null;
  readonly out: string;
  /** Standard error, by line. */
  readonly err: readonly string[];
}

const DEADLINE_MS = 20_000;

/** Runs `takeover` with nothing in its environment but what is given. */
export function takeover(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  user?: number,
): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [MAIN, ...args], {
      env: { PATH: process.env.PATH ?? "", ...env },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: DEADLINE_MS,
      ...(user === undefined ? {} : { uid: user, gid: user }),
    });
    let out = "";
    let err = "";
    child.stdout.setEncoding("utf8").on("data", (text) => {
      out += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text) => {
      err += text;
    });
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, out, err: err.split("\n").slice(0, -1) }));
  });
}
