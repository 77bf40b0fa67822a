import { generateKeyPairSync } from "node:crypto";
import { closeSync, openSync, rmSync, writeFileSync } from "node:fs";
import { BadValue } from "../config/bad-value.js";
import { ed25519PrivateFile, ed25519PublicLine } from "./openssh-key.js";

const TAKEN = ["exists already", "choose another path; a key is never overwritten"] as const;
const NO_FOLDER = ["is in a folder that does not exist", "make it first"] as const;
const PROBLEMS: Readonly<Record<string, readonly [problem: string, remedy: string]>> = {
  EEXIST: TAKEN,
  EISDIR: TAKEN,
  ENOENT: NO_FOLDER,
  ENOTDIR: NO_FOLDER,
  EACCES: ["cannot be written by this user", "check the owner and mode of its folder"],
};

/**
 * Makes an Ed25519 pair in OpenSSH's format: the private key at `path`, for its owner only, and the
 * public one at `path.pub`. Returns the public line, without a line break. Nothing is overwritten, and
 * either both files exist afterwards or none. Throws BadValue, whose text continues `path`.
 */
export function createKeyPair(path: string, comment: string): string {
  const { x, d } = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const publicKey = Buffer.from(x ?? "", "base64url");
  const seed = Buffer.from(d ?? "", "base64url");
  const publicLine = `${ed25519PublicLine(publicKey)} ${comment}`;

  const made: string[] = [];
  try {
    // The public name first: it is the one more often taken, and then nothing secret was written.
    write(`${path}.pub`, 0o644, `${publicLine}\n`, made);
    write(path, 0o600, ed25519PrivateFile({ publicKey, seed }, comment), made);
  } catch (error) {
    for (const file of made) {
      rmSync(file, { force: true });
    }
    throw withReason(error, made.length === 0 ? "with .pub added " : "");
  }
  return publicLine;
}

/** A new file, made by this call or not at all: with `wx` nobody can slip one in between. */
function write(path: string, mode: number, content: string, made: string[]): void {
  const fd = openSync(path, "wx", mode);
  made.push(path);
  try {
    writeFileSync(fd, content);
  } finally {
    closeSync(fd);
  }
}

function withReason(error: unknown, subject: string): BadValue {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const [problem, remedy] = PROBLEMS[code] ?? [
    `cannot be written (${code})`,
    "choose another path, or check its folder and disk",
  ];
  return new BadValue(`${subject}${problem}`, remedy, { cause: error });
}
