import type { Environment } from "../config/read-options.js";

/** What a command sees of the process that it runs in. */
export interface Terminal {
  readonly environment: Environment;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** Whether a person reads standard output, as far as one can tell. */
  readonly outIsTerminal: boolean;
}

/** The terminal of this process. */
export function processTerminal(): Terminal {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      // `takeover … | head` is no failure. Anything else, such as a full disk, lost what was said.
      if (error.code !== "EPIPE") {
        process.exitCode = 1;
      }
    });
  }
  return {
    environment: process.env,
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    outIsTerminal: process.stdout.isTTY === true,
  };
}
