import type { HostKeyPolicy } from "../config/host-key-policy.js";
import type { PrivateKey } from "../ssh/private-key.js";
import type { AgentExecutable } from "./agent-executable.js";

/** What the steps need to know of the worker's configuration. Times are milliseconds. */
export interface TakeoverSettings {
  readonly executable: AgentExecutable;
  /** Absolute path on the machine. */
  readonly targetPath: string;
  readonly endpoint: string;
  /** DER; empty where none is configured. */
  readonly caCertificate: Uint8Array;
  readonly sshUser: string;
  readonly sshKey: PrivateKey;
  readonly hostKeyPolicy: HostKeyPolicy;
  readonly connectTimeoutMs: number;
  readonly handshakeTimeoutMs: number;
  readonly uploadStallTimeoutMs: number;
  readonly execTimeoutMs: number;
  readonly acceptFirstGenerationAgents: boolean;
}
