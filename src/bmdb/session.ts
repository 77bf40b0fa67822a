import type pg from "pg";

/** A worker's registration: who stands behind `locked_by` of its jobs. */
export interface Session {
  readonly sessionId: string;
  readonly componentName: string;
  /** For people: where the worker runs, and what it is. */
  readonly runtimeInfo: string;
  /** The name under which this worker's queue runner locks jobs. */
  readonly poolId: string;
}

export const HEARTBEAT_SECONDS = 4;
const DEADLINE_SECONDS = 12;

/** Registers the session, or moves its deadline on; a session that was reaped meanwhile is there again. */
export async function keepSession(queue: pg.Pool, session: Session): Promise<void> {
  await queue.query(
    `insert into bmdb.sessions
       (session_id, component_name, runtime_info, pool_id, interval_seconds, deadline)
     values ($1, $2, $3, $4, $5, clock_timestamp() + $6 * interval '1 second')
     on conflict (session_id) do update
     set pool_id = excluded.pool_id, deadline = excluded.deadline`,
    [
      session.sessionId,
      session.componentName,
      session.runtimeInfo,
      session.poolId,
      HEARTBEAT_SECONDS,
      DEADLINE_SECONDS,
    ],
  );
}

export async function endSession(queue: pg.Pool, sessionId: string): Promise<void> {
  await queue.query("delete from bmdb.sessions where session_id = $1", [sessionId]);
}
