import ssh2, { type ParsedKey } from "ssh2";
import type { DialOptions } from "../../src/ssh/dial-options.js";
import type { PrivateKey } from "../../src/ssh/private-key.js";
import { SSH_USER } from "./sshd.js";

let key: PrivateKey | undefined;

/** A key that no real server knows. */
export function anyKey(): PrivateKey {
  if (key === undefined) {
    const pair = ssh2.utils.generateKeyPairSync("ecdsa", { bits: 256 });
    const parsed = ssh2.utils.parseKey(pair.private) as ParsedKey;
    key = { parsed, publicLine: pair.public.trim() };
  }
  return key;
}

/** How to dial a server on 127.0.0.1 that is a stranger. */
export function dialOptions(
  port: number,
  changes: Partial<DialOptions> = {},
): Omit<DialOptions, "keepalive"> & Partial<Pick<DialOptions, "keepalive">> {
  return {
    address: "127.0.0.1",
    port,
    user: SSH_USER,
    key: anyKey(),
    hostKey: { policy: "accept-new", required: null, recorded: null },
    connectTimeoutMs: 2000,
    handshakeTimeoutMs: 5000,
    ...changes,
  };
}
