import { type JournalEntry, overlapsIn } from "../../src/demo/journal.js";

type Sql = (text: string, values?: unknown[]) => Promise<Record<string, unknown>[]>;

/** What the database and the fleet's own records say after the storm. */
export interface Verdict {
  /** Each a sentence; none is what we want. */
  readonly violations: string[];
  /** What is no violation and yet worth a number. */
  readonly counted: Readonly<Record<string, number>>;
}

interface Run {
  readonly begin: number;
  readonly agentKey: string | null;
}

/** Checks everything once nothing runs any more. `sound`: the machines that must have a key. */
export async function judge(
  sql: Sql,
  journal: readonly JournalEntry[],
  sound: readonly string[],
): Promise<Verdict> {
  const violations: string[] = [];
  const runs = runsByMachine(journal);

  for (const machineId of overlapsIn(journal)) {
    violations.push(`two runs of the agent on machine ${machineId} overlapped`);
  }
  const raced = await checkKeys(sql, runs, sound, violations);
  const unpaired = await checkOrder(sql, runs, violations);
  await checkEnds(sql, violations);
  await checkLeftovers(sql, violations);

  const [{ deadlocks } = {}] = await sql(
    "select deadlocks::integer as deadlocks from pg_stat_database where datname = current_database()",
  );
  const events = await sql(
    "select event, count(*)::integer as count from bmdb.work_history group by event order by event",
  );
  return {
    violations,
    counted: {
      "agent runs": [...runs.values()].flat().length,
      ...Object.fromEntries(events.map(({ event, count }) => [String(event), Number(count)])),
      "keys of an earlier run kept, its rescue having come first": raced,
      "runs that no attempt on record accounts for (a freeze between ping and start)": unpaired,
      deadlocks: Number(deadlocks),
    },
  };
}

function runsByMachine(journal: readonly JournalEntry[]): Map<string, Run[]> {
  const runs = new Map<string, Run[]>();
  const open = new Map<string, { begin: number }>();
  for (const entry of journal) {
    if (entry.event === "run_begin") {
      open.set(`${entry.machineId} ${entry.connection}`, { begin: Date.parse(entry.at) });
    } else if (entry.event === "run_end") {
      const begun = open.get(`${entry.machineId} ${entry.connection}`);
      const own = runs.get(entry.machineId) ?? [];
      own.push({ begin: begun?.begin ?? 0, agentKey: entry.agentKey });
      runs.set(entry.machineId, own);
    }
  }
  return runs;
}

/** Every sound machine has the key that its last agent printed. Gives how many have an earlier run's. */
async function checkKeys(
  sql: Sql,
  runs: ReadonlyMap<string, Run[]>,
  sound: readonly string[],
  violations: string[],
): Promise<number> {
  const rows = await sql(
    `select started.machine_id, encode(started.agent_public_key, 'hex') as key,
            exists (
              select from bmdb.work_history as history
              where history.machine_id = started.machine_id and history.event = 'Canceled'
                and history.failed_cause like 'the machine has another agent key on record%'
            ) as raced
     from bmdb.machine_agent_started as started`,
  );
  const onRecord = new Map(rows.map((row) => [row.machine_id, row]));
  let raced = 0;
  for (const machineId of sound) {
    const row = onRecord.get(machineId);
    const own = runs.get(machineId) ?? [];
    if (row === undefined) {
      violations.push(`machine ${machineId} has no key`);
    } else if (row.key !== own.at(-1)?.agentKey) {
      if (row.raced && own.some((run) => run.agentKey === row.key)) {
        raced += 1;
      } else {
        violations.push(
          `machine ${machineId} has the key ${row.key}, its last agent printed ${own.at(-1)?.agentKey}`,
        );
      }
    }
  }
  return raced;
}

/**
 * Between two 'Started' of a machine there is one run at most, and none before the first: the runs came in the
 * order of the attempts. Gives how many runs have no attempt of their own.
 */
async function checkOrder(
  sql: Sql,
  runs: ReadonlyMap<string, Run[]>,
  violations: string[],
): Promise<number> {
  const rows = await sql(
    `select machine_id, extract(epoch from at)::float8 * 1000 as at from bmdb.work_history
     where event = 'Started' order by history_id`,
  );
  const started = new Map<unknown, number[]>();
  for (const { machine_id, at } of rows) {
    started.set(machine_id, [...(started.get(machine_id) ?? []), Number(at)]);
  }
  let unpaired = 0;
  for (const [machineId, own] of runs) {
    const attempts = started.get(machineId) ?? [];
    let last = -1;
    for (const { begin } of own) {
      // The journal's times are in whole milliseconds.
      const attempt = attempts.findLastIndex((at) => at <= begin + 1);
      if (attempt < 0) {
        violations.push(`an agent ran on machine ${machineId} before any attempt had started`);
      } else if (attempt <= last) {
        unpaired += 1;
      }
      last = attempt;
    }
  }
  return unpaired;
}

async function checkEnds(sql: Sql, violations: string[]): Promise<void> {
  const open = await sql(
    `select machine_id from bmdb.work_history as started
     where event = 'Started'
       and not exists (
         select from bmdb.work_history as ended
         where ended.machine_id = started.machine_id and ended.session_id = started.session_id
           and ended.job_id = started.job_id and ended.history_id > started.history_id
           and ended.event <> 'Started'
       )`,
  );
  for (const { machine_id } of open) {
    violations.push(`an attempt on machine ${machine_id} has no end in the history`);
  }
}

export const WORKERS_CONNECTIONS =
  "select from pg_stat_activity where datname = current_database() and application_name like 'takeover %'";

async function checkLeftovers(sql: Sql, violations: string[]): Promise<void> {
  const leftovers: Record<string, string> = {
    "jobs are still locked": "select from graphile_worker.jobs where locked_at is not null",
    "sessions are left": "select from bmdb.sessions",
    "transactions are open":
      "select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and state like 'idle in transaction%'",
    "workers' connections are open": WORKERS_CONNECTIONS,
    "machines with a key have a job that would still run": `select from bmdb.takeover_jobs join bmdb.machine_agent_started using (machine_id)
       where retries_left and run_at <= clock_timestamp()`,
  };
  for (const [what, statement] of Object.entries(leftovers)) {
    const count = (await sql(statement)).length;
    if (count > 0) {
      violations.push(`${count} ${what}`);
    }
  }
}
