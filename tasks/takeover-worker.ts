import type { ClaimedMachine } from "../src/bmdb/claim.js";
import type { Pools } from "../src/bmdb/pools.js";
import type { TakenOver, TakeoverHooks } from "../src/takeover/pipeline.js";
import type { LimitedLogger } from "../src/telemetry/limited-logger.js";
import type { Logger } from "../src/telemetry/logger.js";
import type { Metrics } from "../src/telemetry/metrics.js";

/** What an attempt needs of the worker that runs it. */
export interface TakeoverWorker {
  readonly pools: Pools;
  readonly metrics: Metrics;
  readonly log: Logger;
  /** For what befalls every attempt at once. */
  readonly limitedLog: LimitedLogger;
  readonly attemptTimeoutMs: number;
  /** Aborted, with Interrupted as its reason, when attempts must not run on. */
  readonly interrupt: AbortSignal;
  /** The session as it is now: a worker whose session was lost has another. */
  sessionId(): string;
  /** The steps: takeOver of src/takeover/pipeline.ts with this worker's settings. */
  takeOver(machine: ClaimedMachine, hooks: TakeoverHooks, signal: AbortSignal): Promise<TakenOver>;
}

/** The worker cannot let an attempt run on: nobody's failure. The message says why. */
export class Interrupted extends Error {
  override readonly name = "Interrupted";
}
