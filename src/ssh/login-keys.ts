import type { ParsedKey } from "ssh2";
import type { PrivateKey } from "./private-key.js";

const RSA_SIGNATURES = [
  ["rsa-sha2-512", "sha512"],
  ["rsa-sha2-256", "sha256"],
] as const;

/**
 * The key in the forms to try, one after the other. An RSA key signs with SHA-2 in two ways (RFC 8332), and
 * never with SHA-1. ssh2 left to itself offers one way only, and SHA-256 to every OpenSSH, also to one that is
 * told to take nothing but SHA-512; where a server announces nothing it falls back to SHA-1.
 */
export function loginKeys({ parsed }: PrivateKey): ParsedKey[] {
  if (parsed.type !== "ssh-rsa") {
    return [parsed];
  }
  return RSA_SIGNATURES.map(([algorithm, hash]) =>
    // ssh2 takes the type for the algorithm's name; the public key keeps its own, as the RFC wants.
    Object.create(parsed, {
      type: { value: algorithm },
      sign: { value: (data: Buffer) => parsed.sign(data, hash) },
    }),
  );
}
