import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { createInstallation, type Installation } from "../support/installation.js";
import { untilReapable } from "../support/postgres.js";
import { createPostgresProxy, type PostgresProxy } from "../support/postgres-proxy.js";
import { describeWithSshd } from "../support/sshd.js";
import { waitFor, within } from "../support/wait.js";
import type { WorkerProcess } from "../support/worker-process.js";

// At each point of an attempt the worker is killed, and in another run its database connections are cut.
// Whatever the point: at rest there is a key and no job, or no key and one job, and the key is the last agent's.

interface Point {
  readonly name: string;
  /** Resolves when the attempt has come there. */
  reached(proxy: PostgresProxy, worker: WorkerProcess): Promise<unknown>;
  /** What is on record after a kill, once the dead worker's session is reaped. */
  readonly afterKill: "pending" | "started";
}

const LOCK = "for no key update nowait";
/** The first statement behind the agent's reply. */
const FINISH = "and provider = $2 and provider_id = $3";
/** As it goes over the wire: "read committed" holds the word too. */
const COMMIT = "commit\0";
const COMPLETION = 'delete from "graphile_worker"._private_jobs as jobs';
const line = (text: string) => {
  const count = (worker: WorkerProcess) => worker.log().split(text).length;
  return (_proxy: PostgresProxy, worker: WorkerProcess) => {
    const before = count(worker);
    return waitFor(text, () => count(worker) > before, 20_000);
  };
};
const at = (statement: string, moment: "before" | "after") => (proxy: PostgresProxy) =>
  proxy.stopAt(statement, moment);

const POINTS: readonly Point[] = [
  { name: "before the lock", reached: at(LOCK, "before"), afterKill: "pending" },
  { name: "after the lock", reached: at(LOCK, "after"), afterKill: "pending" },
  {
    name: "after 'Started'",
    reached: at("as rank", "after"),
    afterKill: "pending",
  },
  { name: "after locate", reached: line("locate ended"), afterKill: "pending" },
  { name: "after dial", reached: line("dial ended"), afterKill: "pending" },
  { name: "after upload", reached: line("upload ended"), afterKill: "pending" },
  { name: "after the reply", reached: at(FINISH, "before"), afterKill: "pending" },
  { name: "before COMMIT", reached: at(COMMIT, "before"), afterKill: "pending" },
  { name: "after COMMIT", reached: at(COMMIT, "after"), afterKill: "started" },
  {
    name: "before the library's completion",
    reached: at(COMPLETION, "before"),
    afterKill: "started",
  },
];
/** Behind these the attempt goes on while the blow falls, and may get as far as its end. */
const RACED = ["after locate", "after dial", "after upload"];

/** One installation for a table of points: a process starts in seconds when the tests run side by side. */
function useInstallation(): { site: Installation; proxy: PostgresProxy } {
  const shared = {} as { site: Installation; proxy: PostgresProxy };
  beforeAll(async () => {
    shared.proxy = await createPostgresProxy(inject("postgresUrl"));
    shared.site = await createInstallation(shared.proxy.through);
  });
  afterAll(async () => {
    await shared.site.remove();
    shared.proxy.close();
  });
  return shared;
}

/** What a reaper does, without its patience. */
async function reapNow(site: Installation): Promise<void> {
  await untilReapable(site.database);
  await site.database.query(
    "update bmdb.sessions set deadline = clock_timestamp() - interval '1 s'",
  );
  await site.database.query(
    "update graphile_worker._private_jobs set locked_at = locked_at - interval '1 min' where locked_at is not null",
  );
  await site.database.query("select bmdb.reap_sessions()");
}

const jobsOf = (site: Installation, machineId: string) =>
  site.database.query(
    "select locked_at is not null as locked from bmdb.takeover_jobs where machine_id = $1",
    [machineId],
  );

/** Each 'Started' has its end, and none is a failure. */
async function expectHistory(site: Installation, machineId: string): Promise<void> {
  const history = await site.history(machineId);
  expect(history.filter((event) => event === "Started")).toHaveLength(history.length / 2);
  expect(history).not.toContain("Failed");
}

/** The key that the last agent printed is on record, and nothing is left to do. */
async function expectStarted(site: Installation, machineId: string): Promise<void> {
  const own = (await site.runs()).filter((run) => run.machineId === machineId);
  const printed = own.filter((run) => run.what.startsWith("key:")).at(-1);
  expect(`key:${await site.started(machineId)}`).toBe(printed?.what);
  await waitFor(
    "its job is gone",
    async () => (await jobsOf(site, machineId)).length === 0,
    20_000,
  );
  await expectHistory(site, machineId);
}

describeWithSshd("an attempt whose worker is killed", () => {
  const shared = useInstallation();

  test.each(POINTS)(
    "$name leaves the machine $afterKill",
    async ({ name, reached, afterKill }) => {
      const { site, proxy } = shared;
      const worker = await site.worker();
      const there = reached(proxy, worker);
      const machineId = await site.provideOne(name);
      await within("the point", 20_000, there);
      await worker.stop("SIGKILL");
      await waitFor(
        "its transaction is over",
        async () =>
          (
            await site.database.query(
              "select from pg_stat_activity where datname = current_database() and application_name = 'takeover attempt'",
            )
          ).length === 0,
      );
      await reapNow(site);
      if (!RACED.includes(name)) {
        expect(await site.state(machineId)).toBe(afterKill);
      }
      if ((await site.state(machineId)) === "started") {
        await expectStarted(site, machineId);
      } else {
        expect(await jobsOf(site, machineId)).toEqual([{ locked: false }]);
        await expectHistory(site, machineId);
      }
      // Out of the way of the next worker.
      await site.database.query("delete from graphile_worker._private_jobs");
    },
    60_000,
  );
});

describeWithSshd("an attempt whose connections to Postgres are cut", () => {
  const shared = useInstallation();
  let worker: WorkerProcess;
  beforeAll(async () => {
    worker = await shared.site.worker("--shutdown-grace=2s");
  });

  test.each(POINTS)(
    "$name ends with one key, and the agent ran no more often than needed",
    async ({ name, reached }) => {
      const { site, proxy } = shared;
      const there = reached(proxy, worker);
      const machineId = await site.provideOne(name);
      await within("the point", 20_000, there);
      await proxy.away();
      await proxy.back();
      await waitFor(
        "the machine is at rest",
        async () => {
          if ((await site.started(machineId)) !== undefined) {
            return true;
          }
          const jobs = await jobsOf(site, machineId);
          return jobs.length === 1 && jobs[0]?.locked === false;
        },
        40_000,
      );
      // Instead of waiting out the delay of a postponed job.
      await site.database.query("select bmdb.enqueue_takeover($1)", [machineId]);
      await waitFor("the machine is started", () => site.started(machineId), 40_000);
      await expectStarted(site, machineId);
      const runs = (await site.runs()).filter(
        (run) => run.what === "begin" && run.machineId === machineId,
      );
      expect(runs.length).toBeGreaterThanOrEqual(1);
      expect(runs.length).toBeLessThanOrEqual(RACED.includes(name) ? 2 : 1);
      await waitFor("the worker is well", async () =>
        (await worker.get("/readyz")).startsWith("200"),
      );
    },
    90_000,
  );
});
