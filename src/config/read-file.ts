import { closeSync, openSync, readSync } from "node:fs";
import { BadValue } from "./bad-value.js";

const PROBLEMS: Readonly<Record<string, readonly [problem: string, remedy: string]>> = {
  ENOENT: ["does not exist", "check the path"],
  ENOTDIR: ["does not exist", "check the path"],
  EACCES: ["cannot be read by this user", "check its owner and mode"],
  EPERM: ["cannot be read by this user", "check its owner and mode"],
  EISDIR: ["is a directory", "give a file"],
};

/**
 * The content of a small file, at most `longest` bytes of it: a configured path may be anything, /dev/zero
 * included. Throws BadValue. Synchronous, since nothing else runs yet when it is used.
 */
export function readFile(path: string, longest: number): Buffer {
  let fd: number | undefined;
  try {
    fd = openSync(path, "r");
    const buffer = Buffer.alloc(longest + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length <= longest; length += read) {
      read = readSync(fd, buffer, length, buffer.length - length, null);
    }
    if (length > longest) {
      throw new BadValue("is too large", `give a file of at most ${longest} bytes`);
    }
    return buffer.subarray(0, length);
  } catch (error) {
    throw error instanceof BadValue ? error : unreadable(error);
  } finally {
    if (fd !== undefined) {
      closeSync(fd);
    }
  }
}

function unreadable(error: unknown): BadValue {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const [problem, remedy] = PROBLEMS[code] ?? [`cannot be read (${code})`, "check the file"];
  return new BadValue(problem, remedy, { cause: error });
}
