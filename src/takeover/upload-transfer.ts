import { TakeoverError } from "../errors.js";
import type { Connection, Sftp } from "../ssh/connection.js";
import { asDuration, type Limit, within } from "../ssh/deadline.js";
import type { AgentExecutable } from "./agent-executable.js";
import { ByteBudget } from "./byte-budget.js";
import { executableChunks } from "./executable-chunks.js";
import type { FramedCommand } from "./framed-command.js";
import { runScript, type ScriptResult } from "./remote-script.js";
import type { UploadPlan } from "./upload-plan.js";
import { RECEIVE } from "./upload-scripts.js";

/** In flight per attempt, in bytes: fills 160 Mbit/s at a round trip of 100 ms. */
const WINDOW_BYTES = 2 * 1024 * 1024;

/** A machine hashes at least this fast, in bytes per second: its answer is waited for accordingly longer. */
const SLOWEST_HASH = 8 * 1024 * 1024;

/** In flight over all attempts of this process, in bytes. One worker has one such bound, so it stands here. */
const budget = new ByteBudget(64 * 1024 * 1024);

/** The limit on one acknowledgement, which is `--upload-stall-timeout`. */
export function stallLimit(stallTimeoutMs: number, signal: AbortSignal, doing: string): Limit {
  return {
    ms: stallTimeoutMs,
    signal,
    late: () =>
      new TakeoverError(
        "TAKEOVER_UPLOAD_STALLED",
        `${doing}: nothing was acknowledged within --upload-stall-timeout ${asDuration(stallTimeoutMs)}`,
      ),
  };
}

/** The limit on an answer that the machine has to hash the executable for. */
export function hashLimit(
  { size }: AgentExecutable,
  stallTimeoutMs: number,
  signal: AbortSignal,
  doing: string,
): Limit {
  const extra = Math.ceil(size / SLOWEST_HASH) * 1000;
  const ms = stallTimeoutMs + extra;
  return {
    ms,
    signal,
    late: () =>
      new TakeoverError(
        "TAKEOVER_UPLOAD_STALLED",
        `${doing}: no answer within ${asDuration(ms)} (--upload-stall-timeout ${asDuration(stallTimeoutMs)}, and ${asDuration(extra)} for hashing)`,
      ),
  };
}

/**
 * Sends the executable into a new file at `plan.tempPath`, owner-only, with writes in flight up to the
 * window, and returns when the server acknowledged its closing. Where that fails the file is the caller's to
 * remove.
 *
 * @throws SftpStatus, SftpUnusable, ConnectionLost, TakeoverError
 */
export async function sendBySftp(
  sftp: Sftp,
  plan: UploadPlan,
  stallTimeoutMs: number,
  signal: AbortSignal,
): Promise<void> {
  const limit = (doing: string) => stallLimit(stallTimeoutMs, signal, doing);
  const handle = await within(limit("creating the file"), sftp.create(plan.tempPath, 0o600));
  const unacknowledged: { readonly bytes: number; readonly written: Promise<void> }[] = [];
  let offset = 0;
  let inFlight = 0;
  const acknowledgeOne = async (): Promise<void> => {
    const oldest = unacknowledged.shift();
    if (oldest !== undefined) {
      await within(limit(`${offset} of ${plan.executable.size} bytes sent`), oldest.written);
      inFlight -= oldest.bytes;
    }
  };
  for await (const chunk of executableChunks(plan.executable)) {
    while (inFlight + chunk.length > WINDOW_BYTES) {
      await acknowledgeOne();
    }
    await budget.take(chunk.length, signal);
    const written = sftp.write(handle, chunk, offset).finally(() => budget.give(chunk.length));
    written.catch(() => {}); // Awaited in its turn; an earlier one may end the upload first.
    unacknowledged.push({ bytes: chunk.length, written });
    offset += chunk.length;
    inFlight += chunk.length;
  }
  while (unacknowledged.length > 0) {
    await acknowledgeOne();
  }
  // Some servers report a full disk or quota only here.
  await within(limit("closing the file"), sftp.closeFile(handle));
}

/**
 * For machines without SFTP: the executable goes into a `cat`, and the same command checks it and puts it in
 * place. If this connection breaks, `cat` sees the end of its input and the command removes the partial file.
 */
export function sendByShell(
  connection: Connection,
  plan: UploadPlan,
  stallTimeoutMs: number,
  resultLimit: Limit,
): Promise<ScriptResult> {
  const { signal } = resultLimit;
  const { tempPath, targetPath, executable } = plan;
  const feed = async ({ running }: FramedCommand): Promise<void> => {
    let sent = 0;
    for await (const chunk of executableChunks(executable)) {
      await budget.take(chunk.length, signal);
      // Resolves when the server's window took it: the acknowledgement that a stream has.
      const written = running.write(chunk).finally(() => budget.give(chunk.length));
      sent += chunk.length;
      const taken = await within(
        stallLimit(stallTimeoutMs, signal, `${sent} of ${executable.size} bytes sent`),
        written,
      );
      if (!taken) {
        break; // The command ended: its answer says why.
      }
    }
    running.end();
  };
  const parameters = [tempPath, targetPath, String(executable.size), executable.sha256];
  return runScript(connection, RECEIVE, parameters, resultLimit, feed);
}
