import { jittered, nextBackoffSeconds } from "../backoff.js";
import type { FailureCode, RetryClass, Step } from "../errors.js";
import type { ClaimedMachine } from "./claim.js";
import { type Attempt, recordEnd } from "./history.js";
import { deleteJob } from "./job.js";
import type { Tx } from "./transaction.js";

export interface Failure {
  readonly code: FailureCode;
  readonly step: Step;
  readonly retryClass: RetryClass;
  readonly cause: string;
}

/**
 * Records a failure, its backoff, and exactly one job for the backoff's end; none while the machine is held
 * or no longer provided. Gives the seconds until the next attempt.
 *
 * Where the row names another provider id, address, port or user than the claim read, the failure was the
 * old one's and the fix is tried at once.
 */
export async function fail(
  tx: Tx,
  attempt: Attempt,
  machine: ClaimedMachine,
  failure: Failure,
): Promise<number> {
  const last = await lockBackoff(tx, attempt.machineId);
  const interval = nextBackoffSeconds(failure.retryClass, last);
  let wait = jittered(interval);

  await recordEnd(tx, attempt, { event: "Failed", ...failure });
  // Waits for an operator's ask under way; the facts are read after it, so that a correction is seen.
  await tx.query(
    `insert into bmdb.work_backoff
       (machine_id, process, kind, until, cause, code, last_interval_seconds)
     values ($1, 'takeover', 'failure', clock_timestamp() + $2 * interval '1 second', $3, $4, $5)
     on conflict (machine_id, process) do update
     set kind = excluded.kind, until = excluded.until, cause = excluded.cause, code = excluded.code,
         last_interval_seconds = excluded.last_interval_seconds`,
    [attempt.machineId, wait, failure.cause, failure.code, interval],
  );
  const corrected = await wasCorrected(tx, machine);
  if (corrected) {
    wait = 0;
    await tx.query(
      `update bmdb.work_backoff set until = clock_timestamp()
       where machine_id = $1 and process = 'takeover'`,
      [attempt.machineId],
    );
  }
  await deleteJob(tx, attempt.jobId);
  // Keep mode: a job that another ask put meanwhile keeps its time. A correction's own job may have been
  // put off by a conflict with this attempt, so there the new time counts.
  await tx.query(
    `select bmdb.put_takeover_jobs(array[machine_id], array[backoff.until], $2)
     from bmdb.takeover_facts
     join bmdb.work_backoff as backoff using (machine_id)
     where machine_id = $1 and backoff.process = 'takeover' and not started and not held`,
    [attempt.machineId, !corrected],
  );
  return wait;
}

/** The last interval of consecutive failures, or null after none or an operator's ask. */
async function lockBackoff(tx: Tx, machineId: string): Promise<number | null> {
  const rows = await tx.query<{ last: number | null }>(
    `select last_interval_seconds as last
     from bmdb.work_backoff
     where machine_id = $1 and process = 'takeover'
     for update`,
    [machineId],
  );
  return rows[0]?.last ?? null;
}

async function wasCorrected(tx: Tx, machine: ClaimedMachine): Promise<boolean> {
  const rows = await tx.query(
    `select from bmdb.machine_provided
     where machine_id = $1
       and (provider, provider_id, provider_ip_address, ssh_port, ssh_user)
         is distinct from ($2, $3, $4, $5::integer, $6)`,
    [
      machine.machineId,
      machine.provider,
      machine.providerId,
      machine.address,
      machine.sshPort,
      machine.sshUser,
    ],
  );
  return rows.length === 1;
}
