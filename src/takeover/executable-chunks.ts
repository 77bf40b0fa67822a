import { createHash } from "node:crypto";
import { TakeoverError } from "../errors.js";
import { type AgentExecutable, openExecutable } from "./agent-executable.js";

/** One SFTP write: some servers corrupt larger ones, and OpenSSH takes no more than 256 KiB. */
export const CHUNK_BYTES = 32 * 1024;
const READ_BYTES = 8 * CHUNK_BYTES;

/**
 * The executable in chunks of 32 KiB, hashed as they go out.
 *
 * @throws TakeoverError TAKEOVER_UPLOAD_FAILED, at the last chunk, where the file is not what it was when the worker started
 */
export async function* executableChunks(executable: AgentExecutable): AsyncGenerator<Buffer> {
  const unreadable = (error: unknown): never => {
    throw new TakeoverError(
      "TAKEOVER_UPLOAD_FAILED",
      `the agent executable ${executable.path} cannot be read any more`,
      { cause: error },
    );
  };
  const file = await openExecutable(executable.path).catch(unreadable);
  try {
    const digest = createHash("sha256");
    let size = 0;
    while (size <= executable.size) {
      // A fresh buffer each time: the chunks before are still on their way.
      const { bytesRead, buffer } = await file
        .read(Buffer.allocUnsafe(READ_BYTES), 0, READ_BYTES, size)
        .catch(unreadable);
      if (bytesRead === 0) {
        break;
      }
      size += bytesRead;
      digest.update(buffer.subarray(0, bytesRead));
      for (let at = 0; at < bytesRead; at += CHUNK_BYTES) {
        yield buffer.subarray(at, Math.min(at + CHUNK_BYTES, bytesRead));
      }
    }
    if (size !== executable.size || digest.digest("hex") !== executable.sha256) {
      throw new TakeoverError(
        "TAKEOVER_UPLOAD_FAILED",
        `the agent executable ${executable.path} changed since the worker started: restart the worker to take up the new one`,
      );
    }
  } finally {
    await file.close();
  }
}
