import type { ParsedKey } from "ssh2";

/** A private key that was parsed, and decrypted where it was encrypted. */
export interface PrivateKey {
  readonly parsed: ParsedKey;
  /** `<type> <base64>`, as OpenSSH prints it. */
  readonly publicLine: string;
}
