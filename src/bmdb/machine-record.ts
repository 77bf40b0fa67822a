import { DatabaseUnusable } from "../config/exit.js";
import { describe } from "../errors.js";
import { type ClaimedMachine, MACHINE_COLUMNS } from "./claim.js";
import { sqlState } from "./database-error.js";
import { hasSchema, type OperatorDatabase, serverVersion } from "./operator-database.js";
import { checkSchemaVersion } from "./preflight.js";

/** What stands in the way of a takeover on record, and what an attempt would read of the machine. */
export interface MachineRecord {
  /** Null where nobody has provided the machine. */
  readonly machine: ClaimedMachine | null;
  /** When its agent was started; null where none is on record. */
  readonly startedAt: Date | null;
  /** Why it is held; null where it is not. */
  readonly heldFor: string | null;
  /** Why its provider is paused; null where it is not. */
  readonly pausedFor: string | null;
  readonly installed: boolean;
  /** A worker has it in hand. */
  readonly running: boolean;
  /** Seconds until its backoff ends; null where none is in force. */
  readonly backoffSeconds: number | null;
}

/** SQLSTATE insufficient_privilege. */
const DENIED = "42501";

/**
 * What the database has on a machine; undefined where it knows no machine of that id. Only reads, and locks
 * nothing.
 *
 * @param migrations those that this program was written for
 * @throws DatabaseUnusable
 */
export async function readMachineRecord(
  database: OperatorDatabase,
  machineId: string,
  migrations: readonly string[],
): Promise<MachineRecord | undefined> {
  await serverVersion(database);
  try {
    if (!(await hasSchema(database))) {
      throw new DatabaseUnusable("the database has no takeover schema: run takeover migrate");
    }
    await checkSchemaVersion(database, migrations);
    return await readRecord(database, machineId);
  } catch (error) {
    if (error instanceof DatabaseUnusable) {
      throw error;
    }
    const remedy = sqlState(error) === DENIED ? "; is the role a member of takeover_operator?" : "";
    throw new DatabaseUnusable(`the database cannot be read: ${describe(error)}${remedy}`, {
      cause: error,
    });
  }
}

async function readRecord(
  database: OperatorDatabase,
  machineId: string,
): Promise<MachineRecord | undefined> {
  const { rows } = await database.query<RecordRow>(
    `select
       ${MACHINE_COLUMNS},
       status.agent_started_at as "startedAt",
       hold.reason as "heldFor",
       pause.reason as "pausedFor",
       coalesce(facts.installed, false) as installed,
       status.state = 'running' as running,
       case when facts.backoff_until > clock_timestamp()
         then extract(epoch from facts.backoff_until - clock_timestamp())::float8
       end as "backoffSeconds"
     from bmdb.machine_status as status
     left join bmdb.machine_provided as provided using (machine_id)
     left join bmdb.takeover_facts as facts using (machine_id)
     left join bmdb.machine_ssh_host_key as host_key using (machine_id)
     left join bmdb.machine_hold as hold using (machine_id)
     left join bmdb.provider_pause as pause on pause.provider = provided.provider
     where status.machine_id = $1`,
    [machineId],
  );
  const [row] = rows;
  if (row === undefined) {
    return undefined;
  }
  const { startedAt, heldFor, pausedFor, installed, running, backoffSeconds, ...machine } = row;
  return {
    machine: machine.machineId === null ? null : (machine as ClaimedMachine),
    startedAt,
    heldFor,
    pausedFor,
    installed,
    running,
    backoffSeconds,
  };
}

/** Null columns where the machine is not provided. */
type RecordRow = Omit<MachineRecord, "machine"> &
  Omit<ClaimedMachine, "machineId"> & { readonly machineId: string | null };
