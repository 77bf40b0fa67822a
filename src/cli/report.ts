import { ConfigurationFaults, DatabaseUnusable, EXIT, type ExitCode } from "../config/exit.js";
import { describe, printable } from "../errors.js";
import { stackOf, withoutPasswords } from "../telemetry/error-fields.js";
import type { Terminal } from "./terminal.js";

/**
 * Tells on standard error why a command ended, a line per fault, and gives its exit code. A stack is for
 * whoever asked for `--log-level debug`, and only where nobody foresaw the error.
 */
export function report(error: unknown, terminal: Terminal, debug: boolean): ExitCode {
  const say = (text: string) => terminal.err(`takeover: ${text}\n`);
  if (error instanceof ConfigurationFaults) {
    error.faults.forEach(say);
    return EXIT.configuration;
  }
  if (error instanceof DatabaseUnusable) {
    // Its message is the whole sentence, remedy included; the causes are in the worker's log.
    say(withoutPasswords(printable(error.message)));
    return EXIT.database;
  }
  say(`unexpected error: ${withoutPasswords(describe(error))}`);
  if (debug && error instanceof Error) {
    terminal.err(`${stackOf(error).stack ?? ""}\n`);
  }
  return EXIT.no;
}
