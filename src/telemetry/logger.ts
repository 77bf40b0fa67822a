import pino from "pino";
import pretty from "pino-pretty";
import type { LogLevel } from "../config/log-level.js";
import { serializeError } from "./error-fields.js";
import type { LogFields } from "./log-fields.js";

type Write = (fields: LogFields, message: string) => void;

/** One line per call. `child` fixes fields for all lines of an attempt, a session, a component. */
export interface Logger {
  readonly trace: Write;
  readonly debug: Write;
  readonly info: Write;
  readonly warn: Write;
  readonly error: Write;
  readonly fatal: Write;
  child(fields: LogFields): Logger;
}

/** Where lines go: a file descriptor, or a stream that takes each line (for tests). */
export type LogDestination = number | { write(line: string): void };

/**
 * Fields that must never be printed, at the top of a line and one level down. `LogFields` has none of
 * them; this is the net below it, for what reaches a line through a cast or through another package.
 */
const SECRETS = [
  "authorization",
  "connectionString",
  "databaseUrl",
  "nonce",
  "passphrase",
  "password",
  "privateKey",
  "sshKey",
  "token",
];

/**
 * A logger that writes before it returns: the line that tells why a process ended is the one that must
 * not be lost, and a worker writes too few lines for buffering to pay.
 *
 * JSON, one object per line, or for human eyes when `readable`. A reader that goes away, or a full disk,
 * ends the logging and not the worker.
 */
export function createLogger(options: {
  readonly level: LogLevel;
  readonly destination: LogDestination;
  readonly readable: boolean;
}): Logger {
  const stream =
    typeof options.destination === "number"
      ? toDescriptor(options.destination)
      : options.destination;
  return pino(
    {
      level: options.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: serializeError },
      redact: { paths: SECRETS.flatMap((key) => [key, `*.${key}`]), censor: "[redacted]" },
    },
    options.readable ? forHumans(stream) : stream,
  );
}

function toDescriptor(fd: number): { write(line: string): void } {
  const stream = pino.destination({ fd, sync: true });
  stream.on("error", () => {
    // Nobody can be told: telling is what has just failed. The work goes on.
  });
  return stream;
}

/** In this thread: pino's usual transport is a worker thread, which loses the last lines. */
function forHumans(stream: { write(line: string): void }): { write(line: string): void } {
  const prettify = pretty.prettyFactory({
    colorize: true,
    translateTime: "SYS:HH:MM:ss.l",
    ignore: "pid,hostname",
    singleLine: true,
  });
  return { write: (line) => stream.write(prettify(line) ?? line) };
}
