import { hasAgentKey } from "../src/bmdb/claim.js";
import type { Tx } from "../src/bmdb/transaction.js";
import { type FailureCode, type Step, TakeoverError } from "../src/errors.js";
import type { TakeoverHooks } from "../src/takeover/pipeline.js";
import type { TakeoverWorker } from "./takeover-worker.js";

/** Watches over one attempt: that its lock is still there, that its time is not up, which step runs. */
export interface AttemptWatch {
  /** Aborts when the lock's connection is lost, the attempt's time is up, or the worker stops. */
  readonly signal: AbortSignal;
  readonly hooks: TakeoverHooks;
  /** The step that runs, or ran last. */
  step(): Step;
  /** An error of the steps, with the end of the attempt's time as the failure of the step that ran. */
  asFailure(error: unknown): unknown;
  stop(): void;
}

/** The machine has got an agent key since the claim: another agent must not be started. */
export class KeyOnRecord extends Error {
  override readonly name = "KeyOnRecord";
}

const PING_PERIOD_MS = 5_000;

/** What an attempt fails with whose time is up at a step. */
export const TIMEOUT_OF_STEP: Readonly<Record<Step, FailureCode>> = {
  locate: "TAKEOVER_LOCATE_TIMEOUT",
  dial: "TAKEOVER_DIAL_TIMEOUT",
  upload: "TAKEOVER_UPLOAD_TIMEOUT",
  run_agent: "TAKEOVER_RUN_AGENT_TIMEOUT",
  // These two take no time that a machine decides.
  verify: "TAKEOVER_RUN_AGENT_TIMEOUT",
  commit: "TAKEOVER_RUN_AGENT_TIMEOUT",
};

export function watchAttempt(tx: Tx, worker: TakeoverWorker, machineId: string): AttemptWatch {
  let step: Step = "locate";
  const timeIsUp = new Error("the attempt's time is up");
  const aborter = new AbortController();
  const pinger = setInterval(() => {
    tx.ping().catch(() => {
      // tx.lost tells, with the reason.
    });
  }, PING_PERIOD_MS);
  const deadline = setTimeout(() => aborter.abort(timeIsUp), worker.attemptTimeoutMs);
  // By hand and not AbortSignal.any: that keeps a reference in the worker's signal, which outlives us.
  const stopFollowing = [tx.lost, worker.interrupt].map((source) => follow(source, aborter));

  return {
    signal: aborter.signal,
    hooks: {
      onStepStart(started) {
        step = started;
      },
      onStepEnd: (ended, seconds) => worker.metrics.stepEnded(ended, seconds),
      onUpload: (upload) => worker.metrics.uploadEnded(upload),
      onHostKey: (decision) => worker.metrics.hostKeyDecided(decision),
      async beforeRunAgent() {
        // An earlier attempt's key may have been rescued since: its agent is the one to stay.
        if (await hasAgentKey(tx, machineId)) {
          throw new KeyOnRecord("the machine has an agent key on record by now; no agent was run");
        }
        // Last, a worker that was frozen or cut off finds out, before anything irreversible.
        await tx.ping();
      },
      log: worker.log,
    },
    step: () => step,
    asFailure(error) {
      return error === timeIsUp
        ? new TakeoverError(
            TIMEOUT_OF_STEP[step],
            `the attempt was still at ${step} after ${worker.attemptTimeoutMs / 1000} s (--attempt-timeout)`,
          )
        : error;
    },
    stop() {
      clearInterval(pinger);
      clearTimeout(deadline);
      for (const stop of stopFollowing) {
        stop();
      }
    },
  };
}

function follow(source: AbortSignal, aborter: AbortController): () => void {
  const onAbort = () => aborter.abort(source.reason);
  if (source.aborted) {
    onAbort();
  }
  source.addEventListener("abort", onAbort);
  return () => source.removeEventListener("abort", onAbort);
}
