import type pg from "pg";
import type { FailureCode, Step } from "../errors.js";
import { trouble } from "./database-error.js";
import type { Tx } from "./transaction.js";

/** Who runs an attempt: goes into every row of its history. */
export interface Attempt {
  readonly machineId: string;
  readonly jobId: string;
  readonly sessionId: string;
}

export type End =
  | { readonly event: "Finished"; readonly warnings: readonly string[] }
  | {
      readonly event: "Failed";
      readonly code: FailureCode;
      readonly step: Step;
      readonly cause: string;
    }
  | { readonly event: "Canceled"; readonly cause: string };

/**
 * 'Started', on a connection of its own: it must be seen while the attempt's transaction is open, and must
 * remain when that transaction is rolled back.
 *
 * Called under the machine's lock, so an earlier attempt that has no end yet is over: its worker could write
 * none, for the database was away. It ends as 'Canceled' here.
 *
 * @throws DatabaseTrouble
 */
export async function recordStarted(queue: pg.Pool, attempt: Attempt): Promise<void> {
  try {
    await queue.query(
      `insert into bmdb.work_history
         (machine_id, process, event, failed_cause, session_id, job_id, duration)
       select machine_id, process, event, failed_cause, session_id, job_id, duration
       from (
         select
           1 as rank, machine_id, process, 'Canceled' as event,
           'its end could not be recorded: the database was away' as failed_cause,
           session_id, job_id, clock_timestamp() - at as duration
         from bmdb.work_history as started
         where machine_id = $1 and event = 'Started'
           and not exists (
             select
             from bmdb.work_history as ended
             where ended.machine_id = $1 and ended.history_id > started.history_id
               and ended.event <> 'Started'
           )
         union all
         select 2, $1::uuid, 'takeover', 'Started', null, $2::uuid, $3::bigint, null
       ) as events
       order by rank`,
      [attempt.machineId, attempt.sessionId, attempt.jobId],
    );
  } catch (error) {
    throw trouble("recording that an attempt started", error);
  }
}

/**
 * The end of an attempt, with its duration since its 'Started'. Nothing where it has its end already: what is
 * repeated after an uncertain commit must not be written twice. Only a 'Canceled' is not the last word: it may
 * be a reaper's, who took the worker for dead.
 */
export async function recordEnd(tx: Tx, attempt: Attempt, end: End): Promise<void> {
  await tx.query(
    `insert into bmdb.work_history
       (machine_id, process, event, failed_cause, code, step, session_id, job_id, duration, warnings)
     select machine_id, process, $4, $5, $6, $7, session_id, job_id, clock_timestamp() - at, $8
     from (
       select *
       from bmdb.work_history
       where machine_id = $1 and session_id = $2 and job_id = $3 and event = 'Started'
       order by history_id desc
       limit 1
     ) as started
     where not exists (
       select
       from bmdb.work_history as ended
       where ended.machine_id = $1 and ended.session_id = $2 and ended.job_id = $3
         and ended.history_id > started.history_id
         and (ended.event in ('Finished', 'Failed') or $4 = 'Canceled')
     )`,
    [
      attempt.machineId,
      attempt.sessionId,
      attempt.jobId,
      end.event,
      "cause" in end ? end.cause : null,
      "code" in end ? end.code : null,
      "step" in end ? end.step : null,
      "warnings" in end && end.warnings.length > 0 ? end.warnings : null,
    ],
  );
}

/** Deletes up to `most` rows older than `retentionMs`, oldest first; gives how many. */
export async function pruneHistory(
  queue: pg.Pool,
  retentionMs: number,
  most: number,
): Promise<number> {
  const result = await queue.query(
    `delete from bmdb.work_history
     where history_id in (
       select history_id
       from bmdb.work_history
       where at < clock_timestamp() - $1 * interval '1 millisecond'
       order by at
       limit $2
     )`,
    [retentionMs, most],
  );
  return result.rowCount ?? 0;
}
