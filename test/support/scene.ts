import { randomBytes, randomUUID } from "node:crypto";
import type { Job, JobHelpers } from "graphile-worker";
import { afterAll, beforeAll, expect } from "vitest";
import type { ClaimedMachine } from "../../src/bmdb/claim.js";
import { createPools, type Pools } from "../../src/bmdb/pools.js";
import type { TakenOver, TakeoverHooks } from "../../src/takeover/pipeline.js";
import { createLimitedLogger } from "../../src/telemetry/limited-logger.js";
import { createLogger } from "../../src/telemetry/logger.js";
import { createMetrics, type Metrics } from "../../src/telemetry/metrics.js";
import { takeoverTask } from "../../tasks/takeover.js";
import { Interrupted, type TakeoverWorker } from "../../tasks/takeover-worker.js";
import { createDatabase, type TestDatabase, useDatabase } from "./postgres.js";

/** The steps of an attempt, scripted: what stands between the claim and the commit. */
export type Steps = (
  machine: ClaimedMachine,
  hooks: TakeoverHooks,
  signal: AbortSignal,
) => Promise<TakenOver>;

/** Any: 32 bytes behind its type, as RFC 8709 has it. */
export const HOST_KEY = `ssh-ed25519 ${Buffer.from(`\0\0\0\x0bssh-ed25519\0\0\0 ${"k".repeat(32)}`).toString("base64")}`;
/** By ssh-keygen -lf. */
export const SHOWN_HOST_KEY = "ssh-ed25519 SHA256:sArVyTbDlP2ByuRNM59Xf/iwOUmdy69sxylyNl3iUQQ";

/** Steps that succeed with this agent key. */
export function answers(agentKey: Uint8Array = randomBytes(32)): Steps {
  return async (_machine, hooks) => {
    await hooks.beforeRunAgent();
    return takenOver(agentKey);
  };
}

export function takenOver(agentKey: Uint8Array): TakenOver {
  return { agentKey, hostKey: HOST_KEY, warnings: [], close: async () => {} };
}

/**
 * A worker at the seam: the real task on the real database, under the role takeover_worker, with the steps
 * scripted and the queue's two statements (lock a job, complete a job) made by hand, so that a test decides
 * what happens between them.
 */
export interface Scene {
  readonly database: TestDatabase;
  readonly pools: Pools;
  readonly sessionId: string;
  readonly metrics: Metrics;
  readonly log: string[];
  /** Inserts a provided machine; gives its id. */
  provide(
    row?: Partial<{ provider: string; providerId: string; address: string }>,
  ): Promise<string>;
  /** Locks the machine's next due job as graphile-worker does. */
  pick(machineId: string, poolId?: string): Promise<Job>;
  /** Runs the task on a locked job, then completes the job as the library does, late or not. */
  run(job: Job, steps: Steps): Promise<void>;
  /** pick and run. */
  attempt(machineId: string, steps: Steps): Promise<void>;
  shutDown(): void;
  jobs(machineId: string): Promise<JobRow[]>;
  history(machineId: string): Promise<string[]>;
  status(machineId: string): Promise<{ state: string; code: string | null; cause: string | null }>;
  agentKey(machineId: string): Promise<Buffer | undefined>;
  /** Seconds from now to the end of the machine's backoff, or null where there is none. */
  backoffSeconds(machineId: string): Promise<number | null>;
  outcomes(): Promise<Record<string, number>>;
  close(): Promise<void>;
}

export interface JobRow {
  readonly id: string;
  readonly key: string | null;
  readonly locked: boolean;
  /** Seconds from now. */
  readonly dueIn: number;
}

/** A database and a worker's pools, shared by the scenes of a file's tests. */
export interface Stage {
  readonly database: TestDatabase;
  readonly pools: Pools;
}

export function useStage(): () => Stage {
  const database = useDatabase();
  let pools: Pools | undefined;
  beforeAll(async () => {
    pools = await workerPools(database);
  });
  afterAll(() => pools?.end());
  return () => {
    if (pools === undefined) {
      throw new Error("the stage is there from the first beforeEach on");
    }
    return { database, pools };
  };
}

async function workerPools(
  database: TestDatabase,
  through: (url: string) => string = (url) => url,
): Promise<Pools> {
  return createPools({
    databaseUrl: through(await database.urlAs("takeover_worker")),
    concurrency: 8,
    onError: () => {},
  });
}

/** On a stage, or on a database of its own: for tests that change its schema, its settings or the way to it. */
export async function createScene(
  options: Partial<Pick<TakeoverWorker, "attemptTimeoutMs">> & {
    stage?: Stage;
    url?: (url: string) => string;
  } = {},
): Promise<Scene> {
  const database = options.stage?.database ?? (await createDatabase());
  const pools = options.stage?.pools ?? (await workerPools(database, options.url));
  const metrics = createMetrics({ providers: ["static"], version: "test" });
  const log: string[] = [];
  const shutdown = new AbortController();
  const sessionId = randomUUID();
  const logger = createLogger({
    level: "debug",
    readable: false,
    destination: { write: (line) => void log.push(line) },
  });
  const worker: Omit<TakeoverWorker, "takeOver"> = {
    pools,
    metrics,
    log: logger,
    limitedLog: createLimitedLogger(logger, 30_000),
    attemptTimeoutMs: options.attemptTimeoutMs ?? 60_000,
    interrupt: shutdown.signal,
    sessionId: () => sessionId,
  };

  const scene: Scene = {
    database,
    pools,
    sessionId,
    metrics,
    log,
    async provide(row = {}) {
      const [machine] = await database.query<{ machine_id: string }>(
        "insert into bmdb.machines default values returning machine_id",
      );
      const machineId = machine?.machine_id ?? "";
      await database.query(
        `insert into bmdb.machine_provided (machine_id, provider, provider_id, provider_ip_address)
         values ($1, $2, $3, $4)`,
        [
          machineId,
          row.provider ?? "static",
          row.providerId ?? randomUUID(),
          row.address ?? "192.0.2.1",
        ],
      );
      return machineId;
    },
    async pick(machineId, poolId = "pool-test") {
      const [row] = await database.query(
        `update graphile_worker._private_jobs as job
         set attempts = job.attempts + 1, locked_by = $2, locked_at = now()
         where id = (
           select id from graphile_worker._private_jobs
           where payload ->> 'machineId' = $1 and is_available and run_at <= now()
           order by priority, run_at, id
           for update skip locked
           limit 1
         )
         returning *`,
        [machineId, poolId],
      );
      if (row === undefined) {
        throw new Error(`no due job for machine ${machineId}`);
      }
      return { ...row, task_identifier: "takeover" } as unknown as Job;
    },
    async run(job, steps) {
      const task = takeoverTask({ ...worker, takeOver: steps });
      await task(job.payload, { job } as unknown as JobHelpers);
      await complete(database, job);
    },
    async attempt(machineId, steps) {
      await scene.run(await scene.pick(machineId), steps);
    },
    shutDown: () => shutdown.abort(new Interrupted("the worker shuts down")),
    jobs: (machineId) =>
      database.query<JobRow & Record<string, unknown>>(
        `select job_id::text as id, job_key as key, locked_at is not null as locked,
                extract(epoch from run_at - clock_timestamp())::float8 as "dueIn"
         from bmdb.takeover_jobs where machine_id = $1 and (retries_left or locked_at is not null)
         order by job_id`,
        [machineId],
      ),
    async history(machineId) {
      const rows = await database.query<{ event: string; code: string | null }>(
        "select event, code from bmdb.work_history where machine_id = $1 order by history_id",
        [machineId],
      );
      return rows.map(({ event, code }) => (code === null ? event : `${event} ${code}`));
    },
    async status(machineId) {
      const [row] = await database.query<{
        state: string;
        code: string | null;
        cause: string | null;
      }>("select state, code, cause from bmdb.machine_status where machine_id = $1", [machineId]);
      if (row === undefined) {
        throw new Error(`machine ${machineId} has no status`);
      }
      return row;
    },
    async agentKey(machineId) {
      const [row] = await database.query<{ agent_public_key: Buffer }>(
        "select agent_public_key from bmdb.machine_agent_started where machine_id = $1",
        [machineId],
      );
      return row?.agent_public_key;
    },
    async backoffSeconds(machineId) {
      const [row] = await database.query<{ seconds: number }>(
        `select extract(epoch from until - clock_timestamp())::float8 as seconds
         from bmdb.work_backoff where machine_id = $1`,
        [machineId],
      );
      return row?.seconds ?? null;
    },
    async outcomes() {
      const counts: Record<string, number> = {};
      for (const [, outcome, count] of (await metrics.text()).matchAll(
        /^takeover_attempts_total\{.*outcome="(\w+)".*\} (\d+)$/gm,
      )) {
        if (outcome !== undefined && count !== "0") {
          counts[outcome] = (counts[outcome] ?? 0) + Number(count);
        }
      }
      return counts;
    },
    async close() {
      if (options.stage === undefined) {
        await pools.end();
        await database.drop();
      }
    },
  };
  return scene;
}

/** The library's completion: a delete by id, whoever holds the job by now. */
async function complete(database: TestDatabase, job: Job): Promise<void> {
  await database.query("delete from graphile_worker._private_jobs where id = $1", [job.id]);
}

/** At rest: a key and no job that would do anything, or no key and exactly one job to come. */
export async function expectAtRest(scene: Scene, machineId: string): Promise<void> {
  const jobs = await scene.jobs(machineId);
  expect(jobs.filter((job) => job.locked)).toEqual([]);
  const { state } = await scene.status(machineId);
  const wanted = ["pending", "backoff", "snoozed"].includes(state) ? 1 : 0;
  expect({ state, jobs: jobs.length }).toEqual({ state, jobs: wanted });
  const open = await scene.database.query(
    `select machine_id from bmdb.work_history group by machine_id
     having count(*) filter (where event = 'Started') <> count(*) filter (where event <> 'Started')`,
  );
  expect(open).toEqual([]);
}
