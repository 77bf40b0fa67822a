import { generateKeyPairSync } from "node:crypto";
import { chmod, writeFile } from "node:fs/promises";
import { type AgentExecutable, loadAgentExecutable } from "../../src/takeover/agent-executable.js";

/** A real Ed25519 public key: 32 bytes. */
export function freshPublicKey(): Buffer {
  const { publicKey } = generateKeyPairSync("ed25519");
  // The last 32 bytes of the DER form, RFC 8410.
  return publicKey.export({ type: "spki", format: "der" }).subarray(-32);
}

const octal = (bytes: Iterable<number>): string =>
  [...bytes].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");

/**
 * An agent in POSIX sh: echoes the bytes it reads as field 1 and answers `key` as field 2. The length is
 * written as a varint of two bytes, which is right up to 16,383 although longer than need be below 128.
 *
 * @param before lines run before the reply, @param after lines run after it
 */
export function shellAgent(key: Buffer, { before = "", after = "" } = {}): string {
  return `#!/bin/sh
${before}
f=$(mktemp)
cat >"$f"
n=$(wc -c <"$f")
printf '\\012'
printf "\\\\$(printf %03o $((n % 128 + 128)))\\\\$(printf %03o $((n / 128)))"
cat "$f"
rm -f "$f"
printf '${octal([0x12, 32])}${octal(key)}'
${after}
`;
}

/** Writes an agent's file, executable, and loads it as the worker does at its start. */
export async function agentFile(path: string, content: string | Buffer): Promise<AgentExecutable> {
  await writeFile(path, content);
  await chmod(path, 0o755);
  return loadAgentExecutable(path);
}
