import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { freshPublicKey } from "../support/agents.js";
import { writeKeyedAgent, writeNodeAgent } from "../support/journaling-agents.js";
import { createDatabase, type TestDatabase } from "../support/postgres.js";
import { describeWithSshd, freePort, SSH_USER, type Sshd, startSshd } from "../support/sshd.js";
import { waitFor } from "../support/wait.js";
import { startWorker, type WorkerProcess, writeClientKey } from "../support/worker-process.js";

// Everything real: SQL, worker processes under the role takeover_worker, an OpenSSH server, agents.

const run = promisify(execFile);

let folder: string;
let target: string;
let journal: string;
let publicLine: string;
let database: TestDatabase;
let sshd: Sshd;
let workers: WorkerProcess[];

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "takeover-e2e-"));
  target = path.join(folder, "machine", "agent");
  journal = path.join(folder, "journal");
  workers = [];
  database = await createDatabase();
  publicLine = await writeClientKey(path.join(folder, "key"));
  await writeNodeAgent(path.join(folder, "agent"), journal);
  sshd = await startSshd({ authorize: () => publicLine });
});

afterEach(async () => {
  await Promise.all(workers.map((worker) => worker.stop("SIGKILL")));
  for (const { what } of await runs()) {
    if (what.startsWith("child:")) {
      await run("kill", [what.slice("child:".length)]).catch(() => undefined);
    }
  }
  await sshd.stop();
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

async function worker(...flags: string[]): Promise<WorkerProcess> {
  const started = await startWorker({
    databaseUrl: await database.urlAs("takeover_worker"),
    executable: path.join(folder, "agent"),
    targetPath: target,
    sshKeyPath: path.join(folder, "key"),
    sshUser: SSH_USER,
    flags,
  });
  workers.push(started);
  return started;
}

/** Inserted in one statement, as an operator would. */
async function provide(
  providerIds: readonly string[],
  row: { port?: number; ids?: readonly string[] } = {},
): Promise<Map<string, string>> {
  const ids = row.ids ?? providerIds.map(() => randomUUID());
  await database.query("insert into bmdb.machines (machine_id) select unnest($1::uuid[])", [ids]);
  await database.query(
    `insert into bmdb.machine_provided (machine_id, provider, provider_id, provider_ip_address, ssh_port)
     select machine_id, 'static', provider_id, '127.0.0.1', $3 from unnest($1::uuid[], $2::text[]) as m (machine_id, provider_id)`,
    [ids, providerIds, row.port ?? sshd.port],
  );
  return new Map(providerIds.map((providerId, n) => [providerId, ids[n] ?? ""]));
}

async function provideOne(
  providerId: string,
  row?: Parameters<typeof provide>[1],
): Promise<string> {
  return (await provide([providerId], row)).get(providerId) ?? "";
}

interface Run {
  readonly what: string;
  readonly machineId: string;
  readonly at: bigint;
}

/** What the agents wrote down, in order. */
async function runs(): Promise<Run[]> {
  const lines = (await readFile(journal, "utf8").catch(() => "")).trim().split("\n");
  return lines.filter(Boolean).map((line) => {
    const [what = "", machineId = "", at = "0"] = line.split(" ");
    return { what, machineId, at: BigInt(at) };
  });
}

const keys = () =>
  database.query<{ machine_id: string; key: string }>(
    "select machine_id, encode(agent_public_key, 'hex') as key from bmdb.machine_agent_started",
  );
const started = async (machineId: string) =>
  (await keys()).find((row) => row.machine_id === machineId)?.key;
const history = async (machineId: string) =>
  (
    await database.query<{ event: string }>(
      "select event from bmdb.work_history where machine_id = $1 order by history_id",
      [machineId],
    )
  ).map(({ event }) => event);
const state = async (machineId: string) =>
  (
    await database.query<{ state: string }>(
      "select state from bmdb.machine_status where machine_id = $1",
      [machineId],
    )
  )[0]?.state;
const jobs = () =>
  database.query<{ locked_at: Date | null; due: boolean }>(
    "select locked_at, run_at <= clock_timestamp() as due from graphile_worker.jobs",
  );
const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
const temporaryFiles = async () =>
  (await readdir(path.dirname(target)).catch(() => [])).filter((name) => name !== "agent");

describeWithSshd("a machine that is inserted with SQL", () => {
  test("is taken over within two seconds of its agent's reply, and the agent's child runs on", async () => {
    const replica = await worker();
    const machineId = await provideOne("m1");
    await waitFor("the agent replied", async () => (await runs()).some((r) => r.what === "end"));
    await waitFor("the key is on record", () => started(machineId), 2_000);
    expect(await history(machineId)).toEqual(["Started", "Finished"]);
    await waitFor("the queue is empty", async () => (await jobs()).length === 0, 2_000);
    const child = (await runs()).find((r) => r.what.startsWith("child:"));
    expect(isAlive(Number(child?.what.slice("child:".length)))).toBe(true);
    expect(await replica.metric("takeover_attempts_total", 'outcome="started"')).toBe(1);
    expect(await replica.metric("takeover_uploads_total", 'result="sent"')).toBe(1);
    expect(await replica.metric("takeover_attempt_slots")).toBe(10);
    expect(await replica.metric("takeover_listen_connected")).toBe(1);
    expect(await replica.get("/livez")).toMatch(/^200 /);
    expect(await temporaryFiles()).toEqual([]);
  });

  test("is taken over anew when its row of the started agent is deleted, while the old agent still runs", async () => {
    const replica = await worker();
    const machineId = await provideOne("m1");
    const first = await waitFor("the first key", () => started(machineId));
    await database.query("delete from bmdb.machine_agent_started");
    const second = await waitFor("the second key", () => started(machineId));
    expect(second).not.toBe(first);
    expect(await history(machineId)).toEqual(["Started", "Finished", "Started", "Finished"]);
    expect(await replica.metric("takeover_uploads_total", 'result="skipped"')).toBe(1);
  });

  test("is started at once by enqueue_takeover and by a raw job while a backoff is in force", async () => {
    await worker();
    const closed = await freePort();
    const machines = await provide(["asked", "raw", "held"], { port: closed });
    const [asked = "", raw = "", held = ""] = machines.values();
    await waitFor("all have failed", async () =>
      (await Promise.all([asked, raw, held].map(state))).every((s) => s === "backoff"),
    );
    // The fault is mended where the rows do not see it: a server starts at that port.
    const mended = await startSshd({ port: closed, authorize: () => publicLine });
    try {
      await database.query("select bmdb.hold_takeover($1, 'being repaired')", [held]);
      const [answer] = await database.query(
        "select bmdb.enqueue_takeover($1) as asked, bmdb.enqueue_takeover($2) as held",
        [asked, held],
      );
      expect(answer).toEqual({ asked: true, held: false });
      for (const machineId of [raw, held]) {
        await database.query(
          `select graphile_worker.add_job('takeover', '{"machineId": "${machineId}"}')`,
        );
      }
      await waitFor("both are started", async () => (await started(asked)) && (await started(raw)));
      await waitFor(
        "the raw jobs have ended",
        async () =>
          (await database.query("select from graphile_worker.jobs where key is null")).length === 0,
      );
      expect(await state(held)).toBe("held");
      expect(await history(held)).toEqual(["Started", "Failed"]);
      const left = await database.query("select machine_id from bmdb.takeover_jobs");
      expect(left).toEqual([{ machine_id: held }]);
    } finally {
      await mended.stop();
    }
  });
});

describeWithSshd("three workers", () => {
  test("take over 200 machines, each exactly once, sharing the work", async () => {
    const held = path.join(folder, "keys");
    await mkdir(held);
    const expected = new Map<string, string>();
    for (let n = 0; n < 200; n++) {
      const [machineId, key] = [randomUUID(), freshPublicKey()];
      expected.set(machineId, key.toString("hex"));
      await writeFile(path.join(held, machineId), key);
    }
    await writeKeyedAgent(path.join(folder, "agent"), journal, held);
    const replicas = await Promise.all([worker(), worker(), worker()]);
    const ids = [...expected.keys()];
    await provide(
      ids.map((_, n) => `m${n}`),
      { ids },
    );
    await waitFor("all keys are on record", async () => (await keys()).length === 200, 90_000);
    expect(new Map((await keys()).map(({ machine_id, key }) => [machine_id, key]))).toEqual(
      expected,
    );

    const journaled = await runs();
    for (const machineId of ids) {
      const own = journaled.filter(
        (r) => r.machineId === machineId && !r.what.startsWith("child:"),
      );
      expect(own.map((r) => r.what)).toEqual(["begin", "end"]);
    }
    const counts = await Promise.all(
      replicas.map((r) => r.metric("takeover_attempts_total", 'outcome="started"')),
    );
    expect(counts.reduce((sum, count) => sum + count)).toBe(200);
    expect(Math.min(...counts)).toBeGreaterThanOrEqual(20);
    await waitFor("the queue is empty", async () => (await jobs()).length === 0);
  }, 120_000);
});

describeWithSshd("a machine that fails", () => {
  test("has a code, a step, a cause to act on, the seed's backoff and one job, and holds up no other", async () => {
    await worker("--ssh-handshake-timeout=1s");
    const stranger = await startSshd();
    // The kernel completes the connection; whoever should answer is dead.
    const silent = net.createServer().listen(0, "127.0.0.1");
    await once(silent, "listening");
    const machines = new Map([
      ...(await provide(["refused"], { port: await freePort() })),
      ...(await provide(["silent"], { port: (silent.address() as net.AddressInfo).port })),
      ...(await provide(["locked"], { port: stranger.port })),
      ...(await provide(["exits", "rubbish", "other", "fine"])),
    ]);
    try {
      await waitFor("the sound machine is started", () => started(machines.get("fine") ?? ""));
      await waitFor(
        "the others have failed",
        async () =>
          (await database.query("select from bmdb.work_history where event = 'Failed'")).length ===
          6,
      );
    } finally {
      await stranger.stop();
      silent.close();
    }
    const rows = await database.query<Record<string, string>>(
      `select provided.provider_id as machine, history.code, history.step, history.failed_cause as cause,
              status.state, extract(epoch from backoff.until - history.at)::float8 as backoff,
              (select count(*)::integer from bmdb.takeover_jobs as job
               where job.machine_id = provided.machine_id and job.run_at = backoff.until) as jobs
       from bmdb.work_history as history
       join bmdb.machine_provided as provided using (machine_id)
       join bmdb.machine_status as status using (machine_id)
       join bmdb.work_backoff as backoff using (machine_id)
       where history.event = 'Failed'`,
    );
    const byName = Object.fromEntries(rows.map((row) => [row.machine, row]));
    const expected: Record<string, [RegExp, string, RegExp]> = {
      refused: [/^TAKEOVER_DIAL_REFUSED$/, "dial", /refused/],
      silent: [/^TAKEOVER_DIAL_TIMEOUT$/, "dial", /--ssh-handshake-timeout/],
      locked: [/^TAKEOVER_DIAL_AUTH_FAILED$/, "dial", /key/],
      exits: [/^TAKEOVER_RUN_AGENT_EXITED$/, "run_agent", /3.*no license for this machine/],
      rubbish: [/^TAKEOVER_VERIFY_UNDECODABLE$/, "verify", /./],
      other: [/^TAKEOVER_VERIFY_INIT_MISMATCH$/, "verify", /machine/],
    };
    for (const [name, [code, step, cause]] of Object.entries(expected)) {
      const row = byName[name];
      expect(row, name).toMatchObject({ step, state: "backoff", jobs: 1 });
      expect(row?.code).toMatch(code);
      expect(row?.cause).toMatch(cause);
      expect(row?.backoff, name).toBeGreaterThan(53);
      expect(row?.backoff, name).toBeLessThan(67);
    }
  });
});

describeWithSshd("SIGTERM", () => {
  test("ends a worker within its grace, exit 0, and leaves the jobs of its attempts free and due", async () => {
    const replica = await worker("--shutdown-grace=4s");
    const ids = [...(await provide(["slow1", "slow2", "slow3"])).values()];
    await waitFor(
      "three agents run",
      async () => (await runs()).filter((r) => r.what === "begin").length === 3,
    );
    expect(await replica.metric("takeover_attempts_running")).toBe(3);
    expect(await database.query("select from bmdb.work")).toHaveLength(3);
    const exit = replica.stop("SIGTERM", 4_000);
    await waitFor("it is not ready", async () => (await replica.get("/readyz")).startsWith("503"));
    expect(await exit).toBe(0);
    expect(await jobs()).toEqual(Array(3).fill({ locked_at: null, due: true }));
    for (const machineId of ids) {
      expect(await history(machineId)).toEqual(["Started", "Canceled"]);
      expect(await state(machineId)).toBe("pending");
    }
    expect(await temporaryFiles()).toEqual([]);
    expect(await database.query("select from bmdb.sessions")).toEqual([]);
  });

  test("a second one skips the grace, and the exit code tells", async () => {
    const replica = await worker("--shutdown-grace=60s");
    const machineId = await provideOne("slow");
    await waitFor("the agent runs", async () => (await runs()).length === 1);
    replica.process.kill("SIGTERM");
    await waitFor("it stops", async () => (await replica.get("/readyz")).startsWith("503"));
    expect(await replica.stop("SIGTERM", 10_000)).toBe(1);
    expect(await state(machineId)).toBe("pending");
    expect(await history(machineId)).toEqual(["Started", "Canceled"]);
  });

  test("without work ends a worker at once", async () => {
    const replica = await worker();
    expect(await replica.stop("SIGINT", 5_000)).toBe(0);
  });
});
