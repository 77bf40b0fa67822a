import { deleteJob } from "./job.js";
import type { Tx } from "./transaction.js";

/**
 * Puts an attempt off without blame: ends its job and puts one for the later of now + `delaySeconds` and the
 * end of a backoff in force. A job that waits already keeps its time; a machine that is held, started or not
 * provided gets none.
 */
export async function postpone(
  tx: Tx,
  job: { readonly machineId: string; readonly jobId: string },
  delaySeconds: number,
): Promise<void> {
  await deleteJob(tx, job.jobId);
  await tx.query(
    `select bmdb.put_takeover_jobs(
       array[machine_id],
       array[greatest(clock_timestamp() + $2 * interval '1 second', backoff_until)],
       true
     )
     from bmdb.takeover_facts
     where machine_id = $1 and not started and not held`,
    [job.machineId, delaySeconds],
  );
}

/** Not before `seconds` from now, and nobody's fault. The count of consecutive failures stands. */
export async function snooze(
  tx: Tx,
  job: { readonly machineId: string; readonly jobId: string },
  seconds: number,
  cause: string,
): Promise<void> {
  await tx.query(
    `insert into bmdb.work_backoff (machine_id, process, kind, until, cause)
     values ($1, 'takeover', 'snooze', clock_timestamp() + $2 * interval '1 second', $3)
     on conflict (machine_id, process) do update
     set kind = excluded.kind, until = excluded.until, cause = excluded.cause, code = null`,
    [job.machineId, seconds, cause],
  );
  await postpone(tx, job, seconds);
}
