import { randomBytes } from "node:crypto";
import { printable } from "../errors.js";
import type { Connection, Ending, OutputSinks, RunningCommand } from "../ssh/connection.js";
import type { Limit } from "../ssh/deadline.js";
import { shellCommand } from "../ssh/shell-words.js";

/**
 * Commands whose output is told from what a login shell's start-up files print before it: the script first
 * prints a random marker, and what follows the marker is the output.
 */

/** Start-up text that is borne before the marker, in bytes; more is a flood. */
export const LONGEST_PREAMBLE = 1024 * 1024;
const PREAMBLE_SAMPLE = 2048;
const STDERR_TAIL = 4096;

/** The marker goes in two parts, so that a shell which echoes its command line does not print it. */
const PRINT_MARKER = `printf %s%s "$1" "$2"; shift 2; `;

/** What a framed command says besides its output proper. */
export interface Heard {
  /** Whether the marker came: whether the machine ran what it was asked to run. */
  readonly started: boolean;
  /** Bytes before the marker. */
  readonly preambleBytes: number;
  /** The beginning of what came before the marker, or in its place; printable. */
  readonly preamble: string;
  /** The end of standard error; printable. */
  readonly stderr: string;
}

export interface FramedCommand {
  readonly running: RunningCommand;
  readonly ended: Promise<Ending>;
  heard(): Heard;
}

/** What to do with the output that follows the marker, and with too much before it. */
export interface FrameSinks {
  output(chunk: Buffer): void;
  /** The beginning of what came before the marker so far, and whether the marker has come. */
  preamble?(text: string, started: boolean): void;
  preambleFlood?(): void;
}

/**
 * Runs `script` by `/bin/sh` with `parameters` as $1, $2, …
 *
 * @throws ConnectionLost, ChannelRefused, and what `limit` says
 */
export async function runFramed(
  connection: Connection,
  script: string,
  parameters: readonly string[],
  sinks: FrameSinks,
  limit: Limit,
): Promise<FramedCommand> {
  const marker = [randomBytes(12).toString("hex"), randomBytes(12).toString("hex")];
  const frame = new Frame(Buffer.from(marker.join(""), "latin1"), sinks);
  const command = shellCommand(PRINT_MARKER + script, [...marker, ...parameters]);
  const running = await connection.exec(command, frame, limit);
  return { running, ended: running.ended, heard: () => frame.heard() };
}

class Frame implements OutputSinks {
  readonly #marker: Buffer;
  readonly #sinks: FrameSinks;
  #started = false;
  #preambleBytes = 0;
  #sample = Buffer.alloc(0);
  /** The last bytes before the marker: it may come in two pieces. */
  #tail = Buffer.alloc(0);
  #stderr = Buffer.alloc(0);

  constructor(marker: Buffer, sinks: FrameSinks) {
    this.#marker = marker;
    this.#sinks = sinks;
  }

  stdout(chunk: Buffer): void {
    if (this.#started) {
      this.#sinks.output(chunk);
      return;
    }
    const seen = Buffer.concat([this.#tail, chunk]);
    const at = seen.indexOf(this.#marker);
    const before = seen.subarray(
      0,
      at < 0 ? Math.max(0, seen.length - this.#marker.length + 1) : at,
    );
    this.#preambleBytes += before.length;
    if (this.#sample.length < PREAMBLE_SAMPLE) {
      this.#sample = Buffer.concat([this.#sample, before.subarray(0, PREAMBLE_SAMPLE)]);
    }
    if (at < 0) {
      this.#tail = Buffer.from(seen.subarray(before.length));
      this.#sinks.preamble?.(this.#preamble(), false);
      if (this.#preambleBytes > LONGEST_PREAMBLE) {
        this.#sinks.preambleFlood?.();
      }
      return;
    }
    this.#started = true;
    this.#tail = Buffer.alloc(0);
    this.#sinks.preamble?.(this.#preamble(), true);
    const output = seen.subarray(at + this.#marker.length);
    if (output.length > 0) {
      this.#sinks.output(output);
    }
  }

  stderr(chunk: Buffer): void {
    this.#stderr = Buffer.concat([this.#stderr, chunk.subarray(-STDERR_TAIL)]).subarray(
      -STDERR_TAIL,
    );
  }

  heard(): Heard {
    return {
      started: this.#started,
      preambleBytes: this.#preambleBytes + this.#tail.length,
      preamble: printable(this.#preamble(), 300),
      stderr: printable(this.#stderr.toString("utf8").slice(-1000)),
    };
  }

  #preamble(): string {
    return Buffer.concat([this.#sample, this.#tail]).toString("utf8", 0, PREAMBLE_SAMPLE);
  }
}
