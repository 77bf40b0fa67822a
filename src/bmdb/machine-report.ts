import type { OperatorDatabase } from "./operator-database.js";

/** How far some machines are. */
export interface Progress {
  readonly started: number;
  readonly running: number;
  /** Failed at least once, and not started since. */
  readonly failed: number;
}

export async function readProgress(
  database: OperatorDatabase,
  machineIds: readonly string[],
): Promise<Progress> {
  const { rows } = await database.query<Progress>(
    `select count(*) filter (where state = 'started')::integer as started,
            count(*) filter (where state = 'running')::integer as running,
            count(*) filter (where state not in ('started', 'running') and code is not null)::integer as failed
     from bmdb.machine_status
     where machine_id = any ($1::uuid[])`,
    [machineIds],
  );
  return rows[0] ?? { started: 0, running: 0, failed: 0 };
}

/** What the database says of one machine. */
export interface MachineReport {
  readonly machineId: string;
  readonly providerId: string;
  readonly state: string;
  /** Hex; null where no agent is on record. */
  readonly agentKey: string | null;
  readonly startedAt: Date | null;
  readonly code: string | null;
  readonly cause: string | null;
  readonly nextAttemptAt: Date | null;
  readonly attempts: number;
  /** Of the last attempt that ended. */
  readonly seconds: number | null;
  /** Which worker's session that was. */
  readonly sessionId: string | null;
}

export async function readReport(
  database: OperatorDatabase,
  machineIds: readonly string[],
): Promise<MachineReport[]> {
  const { rows } = await database.query<MachineReport>(
    `select status.machine_id as "machineId",
            status.provider_id as "providerId",
            status.state,
            encode(agent.agent_public_key, 'hex') as "agentKey",
            agent.agent_started_at as "startedAt",
            status.code,
            status.cause,
            status.next_attempt_at as "nextAttemptAt",
            status.attempts::integer as attempts,
            extract(epoch from latest.duration)::float8 as seconds,
            latest.session_id as "sessionId"
     from bmdb.machine_status as status
     left join bmdb.machine_agent_started as agent using (machine_id)
     left join lateral (
       select history.duration, history.session_id
       from bmdb.work_history as history
       where history.machine_id = status.machine_id and history.event in ('Finished', 'Failed')
       order by history.history_id desc
       limit 1
     ) as latest on true
     where status.machine_id = any ($1::uuid[])
     order by status.provider_id`,
    [machineIds],
  );
  return rows;
}
