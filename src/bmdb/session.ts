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

/**
 * Registers the session, or moves its deadline on. True where it was not there: at the start, and after it
 * was reaped because no heartbeat came through for too long.
 */
export async function keepSession(queue: pg.Pool, session: Session): Promise<boolean> {
  const { rows } = await queue.query<{ registered: boolean }>(
    `insert into bmdb.sessions
       (session_id, component_name, runtime_info, pool_id, interval_seconds, deadline)
     values ($1, $2, $3, $4, $5, clock_timestamp() + $6 * interval '1 second')
     on conflict (session_id) do update
     set pool_id = excluded.pool_id, deadline = excluded.deadline
     -- xmax is 0 in a row that was inserted, not updated
     returning xmax = 0 as registered`,
    [
      session.sessionId,
      session.componentName,
      session.runtimeInfo,
      session.poolId,
      HEARTBEAT_SECONDS,
      DEADLINE_SECONDS,
    ],
  );
  return rows[0]?.registered ?? false;
}

/** Frees what dead workers held; gives how many jobs. */
export async function reapSessions(queue: pg.Pool): Promise<number> {
  const { rows } = await queue.query<{ freed: number }>("select bmdb.reap_sessions() as freed");
  return rows[0]?.freed ?? 0;
}

/** Lets a session lapse now: the next reaping ends its open attempts and frees its jobs. */
export async function lapseSession(queue: pg.Pool, sessionId: string): Promise<void> {
  await queue.query("update bmdb.sessions set deadline = clock_timestamp() where session_id = $1", [
    sessionId,
  ]);
}

/** Ends a session that holds nothing any more. */
export async function endSession(queue: pg.Pool, sessionId: string): Promise<void> {
  await queue.query("delete from bmdb.sessions where session_id = $1", [sessionId]);
}
