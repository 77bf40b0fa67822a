import { ChannelRefused, type Connection, type RunningCommand } from "../ssh/connection.js";
import { type Limit, settledWithin } from "../ssh/deadline.js";
import { shellCommand } from "../ssh/shell-words.js";
import { GUARD, GUARD_BEGIN, GUARD_OVER } from "./upload-scripts.js";

/** Watches over the temporary file of a transfer, from the machine. */
export interface UploadGuard {
  /** The file has been moved or is not wanted: removes it if it is still there, and ends. Never rejects. */
  release(signal: AbortSignal): Promise<void>;
}

/** How long its end is waited for, in milliseconds. */
const GOODBYE_MS = 500;

/**
 * Has the machine itself remove `tempPath` when the connection goes: over a connection that is cut, or whose
 * worker was killed, nobody else can. It knows the temporary name alone, and so never touches the target.
 *
 * It costs a sleeping shell and three round trips (8 ms of an upload of 82 ms to OpenSSH over loopback). A second
 * connection to tidy up, the other way to do it, finds no machine where the first was lost, and no worker
 * where that was killed. Null where the server has no channel for it (MaxSessions 1): there the machine's next
 * attempt removes the file.
 *
 * @throws ConnectionLost, and what `limit` says
 */
export async function guardUpload(
  connection: Connection,
  tempPath: string,
  limit: Limit,
): Promise<UploadGuard | null> {
  const silent = { stdout: () => {}, stderr: () => {} };
  let guard: RunningCommand;
  try {
    guard = await connection.exec(shellCommand(GUARD, [tempPath]), silent, limit, { once: true });
  } catch (error) {
    if (error instanceof ChannelRefused) {
      return null;
    }
    throw error;
  }
  // Whether it was heard would be no news: neither is waited for.
  const tell = (word: string) => void guard.write(Buffer.from(`${word}\n`));
  tell(GUARD_BEGIN);
  return {
    async release(signal) {
      tell(GUARD_OVER);
      guard.end();
      if (!signal.aborted) {
        // The next channel is opened only then: dropbear 2022.83 takes the end of one session's process for the
        // end of another that is just being opened, and closes that (one takeover of forty, under load).
        await settledWithin(GOODBYE_MS, guard.ended);
      }
      guard.close();
    },
  };
}
