import type { FailureCode, Step } from "../errors.js";
import type { Outcome } from "./outcome.js";

/**
 * The keys of a log line: a closed set, so that a search over the logs of a year finds all of it. Add
 * here before logging a new one. No key is for a secret.
 */
export interface LogFields {
  machineId?: string;
  provider?: string;
  providerId?: string;
  address?: string;
  jobId?: string;
  /** Counts the attempts of this worker; it tells two attempts for one machine apart. */
  attempt?: number | string;
  step?: Step;
  outcome?: Outcome;
  code?: FailureCode;
  /** Hex, as `select encode(agent_public_key, 'hex')` prints it. */
  agentPublicKey?: string;
  hostKey?: string;
  warnings?: readonly string[];
  durationMs?: number;
  retryInMs?: number;
  err?: unknown;

  component?: string;
  sessionId?: string;
  poolId?: string;
  version?: string;
  database?: string;
  url?: string;
  signal?: string;
  count?: number;
  slots?: number;
  migration?: string;
  /** What is in force, for the line at the start; no secrets. */
  settings?: Readonly<Record<string, string | number | boolean | null>>;
  /** How many lines like this one were not written. */
  leftOut?: number;
}
