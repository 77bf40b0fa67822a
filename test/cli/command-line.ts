import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { run } from "../../src/cli/program.js";

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

/** The same in this process, in a hundredth of the time: for what neither signals nor logs. */
export async function takeoverHere(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  let out = "";
  let err = "";
  const code = await run(args, {
    environment: env,
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
    outIsTerminal: false,
  });
  return { code, out, err: err.split("\n").slice(0, -1) };
}
