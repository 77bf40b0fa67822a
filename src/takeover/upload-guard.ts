import { type Connection, ConnectionLost, type RunningCommand } from "../ssh/connection.js";
import { shellCommand } from "../ssh/shell-words.js";
import { GUARD, GUARD_OVER } from "./upload-scripts.js";

/** Watches over the temporary file of a transfer, from the machine. */
export interface UploadGuard {
  /** The file has been moved or is not wanted: removes it if it is still there, and ends. Waits for nothing. */
  release(): void;
}

/** How long the machine may take to start it, in milliseconds; an upload goes on without, too. */
const START_MS = 2000;

/**
 * Has the machine itself remove `tempPath` when the connection goes: over a connection that is cut, or whose
 * worker was killed, nobody else can. It knows the temporary name alone, and so never touches the target.
 *
 * It costs a sleeping shell and two round trips (8 ms of an upload of 82 ms to OpenSSH over loopback). A second
 * connection to tidy up, the other way to do it, finds no machine where the first was lost, and no worker
 * where that was killed. Null where the server has no channel for it (MaxSessions 1) or does not start it:
 * there the machine's next attempt removes the file.
 *
 * @throws ConnectionLost; the signal's reason where it aborts
 */
export async function guardUpload(
  connection: Connection,
  tempPath: string,
  signal: AbortSignal,
): Promise<UploadGuard | null> {
  const silent = { stdout: () => {}, stderr: () => {} };
  const limit = { ms: START_MS, signal, late: () => new Error("no guard in time") };
  let guard: RunningCommand;
  try {
    guard = await connection.exec(shellCommand(GUARD, [tempPath]), silent, limit, { once: true });
  } catch (error) {
    if (signal.aborted || error instanceof ConnectionLost) {
      throw error;
    }
    return null;
  }
  return {
    release() {
      void guard.write(Buffer.from(`${GUARD_OVER}\n`)); // Whether it was heard would be no news.
      guard.end();
      guard.close();
    },
  };
}
