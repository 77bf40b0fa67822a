import { TakeoverError } from "../errors.js";
import { ChannelRefused, type Connection, ConnectionLost, type Ending } from "../ssh/connection.js";
import { asDuration, type Limit, within } from "../ssh/deadline.js";
import { type FramedCommand, type Heard, LONGEST_PREAMBLE, runFramed } from "./framed-command.js";
import { encodeInit, type TakeoverInit } from "./init.js";
import { whyNotExecutable } from "./not-executable.js";
import type { TakeoverSettings } from "./settings.js";

/** The longest reply that is taken, in bytes. */
const LONGEST_REPLY = 64 * 1024;

/** The shell's words for "cannot execute" and "not found". */
const CANNOT_EXECUTE = [126, 127];

const RUN = `exec "$1"`;

/** What the agent said. */
export interface AgentReply {
  /** Its standard output, at most 64 KiB. */
  readonly bytes: Uint8Array;
  /** The end of its standard error; printable. */
  readonly stderr: string;
  /**
   * Set where it is not known that the agent ended well, though it did not end badly either: the server told no
   * exit status, or the connection went. Agents replace the running system once they replied, so a reply that
   * is complete and valid counts; where it is not, this is the failure.
   */
  readonly cutShort: TakeoverError | null;
}

/**
 * Runs the agent at `--agent-target-path` with the init on its standard input, under the deadline
 * `--agent-ssh-exec-timeout`, and returns what it answered.
 *
 * @throws TakeoverError of the step `run_agent`; the signal's reason where it aborts
 */
export async function runAgent(
  { connection, init }: { readonly connection: Connection; readonly init: TakeoverInit },
  settings: TakeoverSettings,
  signal: AbortSignal,
): Promise<AgentReply> {
  const deadline = performance.now() + settings.execTimeoutMs;
  // One deadline for starting and running: what is left of it, wherever it is waited for.
  const limit: Limit = {
    get ms() {
      return Math.max(0, deadline - performance.now());
    },
    signal,
    late: () =>
      new TakeoverError(
        "TAKEOVER_RUN_AGENT_TIMEOUT",
        `the agent had not ended within --agent-ssh-exec-timeout ${asDuration(settings.execTimeoutMs)}`,
      ),
  };
  const reply = new Reply();
  const command = await start(connection, settings.targetPath, reply, limit);
  const { running } = command;
  // Not awaited: an agent may end without reading it, and its exit is then what to tell.
  void running.write(encodeInit(init));
  running.end();
  try {
    const ending = await within(limit, Promise.race([command.ended, reply.tooMuch]));
    const heard = command.heard();
    await judge(ending, heard, connection, settings, signal);
    return { bytes: reply.bytes(), stderr: heard.stderr, cutShort: cutShort(ending, heard) };
  } catch (error) {
    throw withStderr(error, command.heard());
  } finally {
    running.close();
  }
}

async function start(
  connection: Connection,
  targetPath: string,
  reply: Reply,
  limit: Limit,
): Promise<FramedCommand> {
  try {
    return await runFramed(connection, RUN, [targetPath], reply, limit);
  } catch (error) {
    if (error instanceof ConnectionLost) {
      throw connectionLost(error);
    }
    if (error instanceof ChannelRefused) {
      throw new TakeoverError(
        "TAKEOVER_RUN_AGENT_REFUSED",
        "the server refused a channel for the agent",
        { cause: error },
      );
    }
    throw error;
  }
}

/** Collects the reply, and tells when it, or what comes before it, is too much. */
class Reply {
  readonly tooMuch: Promise<never>;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #fail: (error: TakeoverError) => void = () => {};

  constructor() {
    this.tooMuch = new Promise((_resolve, reject) => {
      this.#fail = reject;
    });
    this.tooMuch.catch(() => {}); // Heard where the run is awaited, or too late to matter.
  }

  output(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > LONGEST_REPLY) {
      this.#chunks = [];
      this.#fail(tooLarge(`the agent's reply has more than ${LONGEST_REPLY / 1024} KiB`));
    } else {
      this.#chunks.push(chunk);
    }
  }

  preambleFlood(): void {
    this.#fail(tooMuchBefore());
  }

  bytes(): Uint8Array {
    return new Uint8Array(Buffer.concat(this.#chunks));
  }
}

/** Throws where the agent ended badly, or was never started. */
async function judge(
  ending: Ending,
  heard: Heard,
  connection: Connection,
  settings: TakeoverSettings,
  signal: AbortSignal,
): Promise<void> {
  if (ending.how === "signaled") {
    const why = ending.signal === "SIGKILL" ? " (out of memory?)" : "";
    throw new TakeoverError(
      "TAKEOVER_RUN_AGENT_SIGNALED",
      `the agent was killed by ${ending.signal}${why}`,
    );
  }
  if (ending.how !== "exited") {
    return;
  }
  if (!heard.started) {
    throw new TakeoverError(
      "TAKEOVER_RUN_AGENT_EXITED",
      `the machine did not start the agent but ran something else, which exited ${ending.code}${heard.preamble === "" ? "" : ` and said "${heard.preamble}"`}`,
    );
  }
  if (ending.code === 0) {
    return;
  }
  if (CANNOT_EXECUTE.includes(ending.code)) {
    const why = await whyNotExecutable(connection, settings, signal);
    if (why !== undefined) {
      throw new TakeoverError(
        "TAKEOVER_RUN_AGENT_NOT_EXECUTABLE",
        `the agent cannot be executed (exit ${ending.code}): ${why}`,
      );
    }
  }
  throw new TakeoverError("TAKEOVER_RUN_AGENT_EXITED", `the agent exited ${ending.code}`);
}

function cutShort(ending: Ending, heard: Heard): TakeoverError | null {
  switch (ending.how) {
    case "lost":
      return withStderr(connectionLost(ending.error), heard);
    case "closed":
      return withStderr(
        new TakeoverError(
          "TAKEOVER_RUN_AGENT_CONNECTION_LOST",
          "the server ended the agent's channel without an exit status",
        ),
        heard,
      );
    default:
      return null;
  }
}

function connectionLost(cause: ConnectionLost): TakeoverError {
  return new TakeoverError(
    "TAKEOVER_RUN_AGENT_CONNECTION_LOST",
    "the connection was lost while the agent ran",
    { cause },
  );
}

/** Start-up text beyond LONGEST_PREAMBLE. */
export function tooMuchBefore(): TakeoverError {
  const mebibytes = LONGEST_PREAMBLE / 1024 / 1024;
  return tooLarge(`more than ${mebibytes} MiB of text came before the agent was started`);
}

function tooLarge(message: string): TakeoverError {
  return new TakeoverError("TAKEOVER_RUN_AGENT_OUTPUT_TOO_LARGE", message);
}

/** The failure with what the agent wrote to standard error, which mostly says why. */
function withStderr<T>(error: T, { stderr }: Heard): T | TakeoverError {
  return error instanceof TakeoverError && stderr !== ""
    ? new TakeoverError(error.code, `${error.message}; its standard error ends: ${stderr}`, {
        cause: error.cause,
      })
    : error;
}
