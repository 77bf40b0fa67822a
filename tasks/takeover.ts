import type { Job, Task } from "graphile-worker";
import { conflictDelaySeconds } from "../src/backoff.js";
import { type Claim, type ClaimedMachine, claimMachine, MachineLocked } from "../src/bmdb/claim.js";
import { DatabaseTrouble } from "../src/bmdb/database-error.js";
import { fail } from "../src/bmdb/fail.js";
import { finish, type Harvest } from "../src/bmdb/finish.js";
import { type Attempt, recordEnd, recordStarted } from "../src/bmdb/history.js";
import { deleteJob } from "../src/bmdb/job.js";
import { postpone, snooze } from "../src/bmdb/postpone.js";
import { type Tx, withTransaction } from "../src/bmdb/transaction.js";
import { describe, Snooze, TakeoverError } from "../src/errors.js";
import { shownHostKey } from "../src/ssh/host-key.js";
import type { TakenOver } from "../src/takeover/pipeline.js";
import type { Logger } from "../src/telemetry/logger.js";
import type { AttemptEnd } from "../src/telemetry/metrics.js";
import { type AttemptWatch, KeyOnRecord, watchAttempt } from "./attempt-watch.js";
import { KeyLost, rescueKey } from "./rescue-key.js";
import { Interrupted, type TakeoverWorker } from "./takeover-worker.js";

/** How a job ended, for the metrics and the log. */
type Ended = Omit<AttemptEnd, "seconds">;

/** The end of an attempt's transaction must fit behind its last step. */
const FINISH_MS = 60_000;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * The task `takeover`: the one place where queue, database and SSH meet. One transaction per attempt holds
 * the machine's row lock from the claim to the commit of the agent's key.
 */
export function takeoverTask(worker: TakeoverWorker): Task {
  let attempts = 0;
  return async (payload, { job }) => {
    const machineId = machineIdOf(payload);
    attempts += 1;
    const log = worker.log.child({
      jobId: job.id,
      attempt: attempts,
      ...(machineId && { machineId }),
    });
    if (machineId === undefined) {
      // Whoever added it by hand sees it gone from the queue, and why in the log; the library deletes it.
      log.error({}, 'a takeover job was dropped: its payload has no "machineId" that is a UUID');
    }
    worker.metrics.attemptStarted();
    // No Date but a number where somebody gave "-infinity".
    worker.metrics.jobWaited((Date.now() - Number(job.run_at)) / 1000);
    const begun = performance.now();
    let ended: Ended = { outcome: "canceled", provider: "other" };
    try {
      ended =
        machineId === undefined
          ? { outcome: "not_eligible", provider: "other" }
          : await attemptTakeover({ ...worker, log }, job, machineId);
    } finally {
      const seconds = (performance.now() - begun) / 1000;
      worker.metrics.attemptEnded({ ...ended, seconds });
      log.debug(
        {
          outcome: ended.outcome,
          provider: ended.provider,
          durationMs: Math.round(seconds * 1000),
        },
        "job ended",
      );
    }
  };
}

/** Payloads come from SQL, so from anybody. */
function machineIdOf(payload: unknown): string | undefined {
  const id =
    typeof payload === "object" && payload !== null && "machineId" in payload
      ? payload.machineId
      : undefined;
  return typeof id === "string" && UUID.test(id) ? id.toLowerCase() : undefined;
}

/** Claim, drive the steps, and finish, fail or postpone: whatever happens, the job has its successor or none. */
async function attemptTakeover(
  worker: TakeoverWorker,
  job: Job,
  machineId: string,
): Promise<Ended> {
  const attempt: Attempt = { machineId, jobId: job.id, sessionId: worker.sessionId() };
  const limits = { longestMs: worker.attemptTimeoutMs + FINISH_MS };
  let provider = "other";
  const reached: { taken?: { machine: ClaimedMachine; over: TakenOver } } = {};
  try {
    const ended = await withTransaction(worker.pools.transactions, limits, async (tx) => {
      const claim = await claimMachine(tx, machineId);
      const machine = await claimed(tx, claim, job);
      if (machine === undefined) {
        return withoutAttempt(claim);
      }
      provider = machine.provider;
      await recordStarted(worker.pools.queue, attempt);
      const watch = watchAttempt(tx, worker, machineId);
      try {
        const over = await worker.takeOver(machine, watch.hooks, watch.signal);
        // From here on the agent may replace the machine's system at any moment, and its key exists nowhere
        // but here: nothing is awaited but the database, and SSH is closed after the commit.
        reached.taken = { machine, over };
      } catch (error) {
        return await endWithoutKey(tx, worker, attempt, machine, watch, error);
      } finally {
        watch.stop();
      }
      return await settle(tx, worker, attempt, machine, reached.taken.over);
    });
    tellStarted(worker.log, ended, reached.taken?.over);
    return ended;
  } catch (error) {
    if (error instanceof MachineLocked) {
      await withTransaction(worker.pools.transactions, limits, (tx) =>
        postpone(tx, attempt, conflictDelaySeconds()),
      );
      return { outcome: "conflict", provider };
    }
    if (reached.taken !== undefined) {
      return await rescue(worker, attempt, reached.taken.machine, reached.taken.over, error);
    }
    return await cancelOnFreshConnection(worker, attempt, provider, error);
  } finally {
    await reached.taken?.over.close();
  }
}

/**
 * The machine to drive, or undefined where the job ends here. A job without key was added by hand: an
 * explicit ask, which a backoff does not put off.
 */
async function claimed(tx: Tx, claim: Claim, job: Job): Promise<ClaimedMachine | undefined> {
  if (claim.state === "eligible" || (claim.state === "backoff" && job.key === null)) {
    return claim.machine;
  }
  if (claim.state === "backoff") {
    await postpone(tx, { machineId: claim.machine.machineId, jobId: job.id }, 0);
  } else {
    await deleteJob(tx, job.id);
  }
  return undefined;
}

function withoutAttempt(claim: Claim): Ended {
  const provider = "machine" in claim ? claim.machine.provider : (claim.provider ?? "other");
  return { outcome: claim.state === "started" ? "already_started" : "not_eligible", provider };
}

/** Stores the key, or says why it is not this machine's. */
async function settle(
  tx: Tx,
  { log }: TakeoverWorker,
  attempt: Attempt,
  machine: ClaimedMachine,
  over: TakenOver,
): Promise<Ended & { inserted?: boolean }> {
  const { provider } = machine;
  const agentPublicKey = Buffer.from(over.agentKey).toString("hex");
  const end = await finish(tx, attempt, harvestOf(machine, over));
  switch (end.result) {
    case "started":
      return { outcome: "started", provider, inserted: end.inserted };
    case "already_started":
      log.warn(
        { provider, agentPublicKey },
        "the machine has another agent key on record by now; this attempt's key was not stored",
      );
      return { outcome: "already_started", provider };
    case "provided_anew": {
      const cause =
        "the machine was provided anew, or no longer is, while its agent was started; the key was not stored";
      log.warn({ provider, agentPublicKey }, cause);
      await recordEnd(tx, attempt, { event: "Canceled", cause });
      await postpone(tx, attempt, 0);
      return { outcome: "not_eligible", provider };
    }
    case "key_taken":
      return await endWithFailure(
        tx,
        log,
        attempt,
        machine,
        new TakeoverError(
          "TAKEOVER_VERIFY_KEY_TAKEN",
          `the agent key ${agentPublicKey} is on record for machine ${end.byMachineId}: are both one machine, or copies of one image?`,
        ),
      );
  }
}

function harvestOf(machine: ClaimedMachine, over: TakenOver): Harvest {
  return {
    agentKey: over.agentKey,
    hostKey: over.hostKey,
    warnings: over.warnings,
    provider: machine.provider,
    providerId: machine.providerId,
  };
}

/** The steps brought no key. What the database or this program is to blame for is thrown on. */
async function endWithoutKey(
  tx: Tx,
  worker: TakeoverWorker,
  attempt: Attempt,
  machine: ClaimedMachine,
  watch: AttemptWatch,
  error: unknown,
): Promise<Ended> {
  const { provider } = machine;
  const failure = watch.asFailure(error);
  if (failure instanceof TakeoverError) {
    return await endWithFailure(tx, worker.log, attempt, machine, failure);
  }
  if (failure instanceof Snooze) {
    const cause = describe(failure);
    await recordEnd(tx, attempt, { event: "Canceled", cause });
    await snooze(tx, attempt, failure.seconds, cause);
    worker.log.info({ provider, retryInMs: failure.seconds * 1000 }, `snoozed: ${cause}`);
    return { outcome: "snoozed", provider };
  }
  if (failure instanceof Interrupted) {
    await recordEnd(tx, attempt, { event: "Canceled", cause: failure.message });
    await postpone(tx, attempt, 0);
    worker.log.info({ provider, step: watch.step() }, `put off: ${failure.message}`);
    return { outcome: "canceled", provider };
  }
  if (failure instanceof KeyOnRecord) {
    await recordEnd(tx, attempt, { event: "Canceled", cause: failure.message });
    await deleteJob(tx, attempt.jobId);
    worker.log.info({ provider, step: watch.step() }, failure.message);
    return { outcome: "already_started", provider };
  }
  throw error;
}

async function endWithFailure(
  tx: Tx,
  log: Logger,
  attempt: Attempt,
  machine: ClaimedMachine,
  error: TakeoverError,
): Promise<Ended> {
  const { code, step, retryClass } = error;
  const cause = describe(error);
  const seconds = await fail(tx, attempt, machine, { code, step, retryClass, cause });
  log.warn(
    { provider: machine.provider, code, step, retryInMs: Math.round(seconds * 1000) },
    `takeover failed: ${cause}`,
  );
  return { outcome: "failed", provider: machine.provider, failure: { step, code } };
}

/** Told after the commit: what the log says has happened. */
function tellStarted(log: Logger, ended: Ended, over: TakenOver | undefined): void {
  if (ended.outcome !== "started" || over === undefined) {
    return;
  }
  const hostKey = over.hostKey === null ? null : shownHostKey(over.hostKey);
  const fields = {
    provider: ended.provider,
    agentPublicKey: Buffer.from(over.agentKey).toString("hex"),
    ...(hostKey !== null && { hostKey }),
  };
  if (over.warnings.length > 0) {
    log.warn({ ...fields, warnings: over.warnings }, "taken over; its agent warns");
  } else {
    log.info(fields, "taken over");
  }
}

/** The commit failed, was cut, or nobody knows: the key must not be lost. */
async function rescue(
  worker: TakeoverWorker,
  attempt: Attempt,
  machine: ClaimedMachine,
  over: TakenOver,
  error: unknown,
): Promise<Ended> {
  const agentPublicKey = Buffer.from(over.agentKey).toString("hex");
  worker.log.warn(
    { agentPublicKey, err: error },
    "the agent answered but its key may not be stored: trying again on a new connection",
  );
  try {
    const ended = await rescueKey(worker.pools, attempt, (tx) =>
      settle(tx, worker, attempt, machine, over),
    );
    if (ended === "was_committed") {
      const started: Ended = { outcome: "started", provider: machine.provider };
      tellStarted(worker.log, started, over);
      return started;
    }
    tellStarted(worker.log, ended, over);
    if (ended.outcome === "started" && ended.inserted) {
      worker.metrics.keyRescued();
    }
    return ended;
  } catch (lost) {
    if (lost instanceof KeyLost) {
      worker.metrics.keyLost();
      worker.log.error(
        { code: "TAKEOVER_COMMIT_KEY_LOST", step: "commit", agentPublicKey, err: lost },
        "the agent runs but its key could not be stored; unless it is inserted by hand the machine is taken over anew",
      );
    }
    throw lost;
  }
}

/**
 * The database's trouble is not the machine's failure: put off, without blame, on another connection. Only
 * if that fails too does the task throw, and the library retries.
 */
async function cancelOnFreshConnection(
  worker: TakeoverWorker,
  attempt: Attempt,
  provider: string,
  error: unknown,
): Promise<Ended> {
  const cause = describe(error);
  if (error instanceof DatabaseTrouble) {
    // Bounded: it befalls all attempts of a worker at once. The history has each.
    const fields = { machineId: attempt.machineId, jobId: attempt.jobId, provider, err: error };
    worker.limitedLog.log("warn", "attempt", fields, "put off: database trouble");
  } else {
    worker.log.error({ provider, err: error }, "put off: an unforeseen error");
  }
  await withTransaction(worker.pools.transactions, { longestMs: FINISH_MS }, async (tx) => {
    await recordEnd(tx, attempt, { event: "Canceled", cause });
    await postpone(tx, attempt, conflictDelaySeconds());
  });
  return { outcome: "canceled", provider };
}
