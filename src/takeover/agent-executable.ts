import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";

/** The agent's file as it was when the worker started; each upload is checked against it. */
export interface AgentExecutable {
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** SHA-256 of the content, lower-case hex. */
  readonly sha256: string;
}

const READ_BYTES = 1024 * 1024;

/** Opens the agent's file for reading; a FIFO at once, too, where it would wait for a writer, for ever. */
export function openExecutable(path: string): Promise<FileHandle> {
  return open(path, constants.O_RDONLY | constants.O_NONBLOCK);
}

/**
 * Hashes the agent's file, without holding it in memory.
 *
 * @throws Error with one sentence that names the file, where it is absent, unreadable, empty or no regular file
 */
export async function loadAgentExecutable(path: string): Promise<AgentExecutable> {
  const file = await openExecutable(path).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`the agent executable ${path} ${openFault(error)}`, { cause: error });
  });
  try {
    const stats = await file.stat();
    if (!stats.isFile()) {
      const kind = stats.isDirectory() ? "is a directory" : "is not a regular file";
      throw new Error(`the agent executable ${path} ${kind}; a file is wanted`);
    }
    if (stats.size === 0) {
      throw new Error(`the agent executable ${path} is empty`);
    }
    return { path, ...(await hash(file)) };
  } finally {
    await file.close();
  }
}

async function hash(file: FileHandle): Promise<{ size: number; sha256: string }> {
  const digest = createHash("sha256");
  const buffer = Buffer.allocUnsafe(READ_BYTES);
  let size = 0;
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length, size);
    if (bytesRead === 0) {
      return { size, sha256: digest.digest("hex") };
    }
    digest.update(buffer.subarray(0, bytesRead));
    size += bytesRead;
  }
}

function openFault({ code, message }: NodeJS.ErrnoException): string {
  switch (code) {
    case "ENOENT":
      return "does not exist";
    case "ENOTDIR":
      return "does not exist: a part of its path is not a directory";
    case "EACCES":
    case "EPERM":
      return "cannot be read: permission denied";
    default:
      return `cannot be read: ${message}`;
  }
}
