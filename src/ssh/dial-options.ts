import type { HostKeyKnowledge } from "./host-key.js";
import type { PrivateKey } from "./private-key.js";
import type { TcpTarget } from "./tcp.js";

export interface Keepalive {
  /** Between two questions. */
  readonly intervalMs: number;
  /** Intervals without a byte from the peer that are borne; one more is the end. */
  readonly count: number;
}

export interface DialOptions extends TcpTarget {
  readonly user: string;
  readonly key: PrivateKey;
  readonly hostKey: HostKeyKnowledge;
  /** `--agent-ssh-connect-timeout`: TCP alone. */
  readonly connectTimeoutMs: number;
  /** `--ssh-handshake-timeout`: identification, key exchange and authentication together. */
  readonly handshakeTimeoutMs: number;
  readonly keepalive: Keepalive;
}
