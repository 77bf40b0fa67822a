import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdir, truncate, writeFile } from "node:fs/promises";
import net from "node:net";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { freshPublicKey } from "../support/agents.js";
import { createInstallation, type Installation } from "../support/installation.js";
import { writeKeyedAgent } from "../support/journaling-agents.js";
import { describeWithSshd, freePort, startSshd } from "../support/sshd.js";
import { tcpProxy } from "../support/tcp-peer.js";
import { waitFor } from "../support/wait.js";

// Everything real: SQL, worker processes under the role takeover_worker, an OpenSSH server, agents.

let site: Installation;
beforeEach(async () => {
  site = await createInstallation();
});
afterEach(() => site.remove());

const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

describeWithSshd("a machine that is inserted with SQL", () => {
  test("is taken over within two seconds of its agent's reply, and the agent's child runs on", async () => {
    const replica = await site.worker();
    const machineId = await site.provideOne("m1");
    await waitFor("the agent replied", async () =>
      (await site.runs()).some((r) => r.what === "end"),
    );
    await waitFor("the key is on record", () => site.started(machineId), 2_000);
    expect(await site.history(machineId)).toEqual(["Started", "Finished"]);
    await waitFor("the queue is empty", async () => (await site.jobs()).length === 0, 2_000);
    const child = (await site.runs()).find((r) => r.what.startsWith("child:"));
    expect(isAlive(Number(child?.what.slice("child:".length)))).toBe(true);
    expect(await replica.metric("takeover_attempts_total", 'outcome="started"')).toBe(1);
    expect(await replica.metric("takeover_uploads_total", 'result="sent"')).toBe(1);
    expect(await replica.metric("takeover_attempt_slots")).toBe(10);
    expect(await replica.metric("takeover_listen_connected")).toBe(1);
    expect(await replica.get("/livez")).toMatch(/^200 /);
    expect(await site.temporaryFiles()).toEqual([]);
  });

  test("is taken over anew when its row of the started agent is deleted, while the old agent still runs", async () => {
    const replica = await site.worker();
    const machineId = await site.provideOne("m1");
    const first = await waitFor("the first key", () => site.started(machineId));
    await site.database.query("delete from bmdb.machine_agent_started");
    const second = await waitFor("the second key", () => site.started(machineId));
    expect(second).not.toBe(first);
    expect(await site.history(machineId)).toEqual(["Started", "Finished", "Started", "Finished"]);
    expect(await replica.metric("takeover_uploads_total", 'result="skipped"')).toBe(1);
  });

  test("is started at once by enqueue_takeover and by a raw job while a backoff is in force", async () => {
    await site.worker();
    const closed = await freePort();
    const machines = await site.provide(["asked", "raw", "held"], { port: closed });
    const [asked = "", raw = "", held = ""] = machines.values();
    await waitFor("all have failed", async () =>
      (await Promise.all([asked, raw, held].map(site.state))).every((s) => s === "backoff"),
    );
    // The fault is mended where the rows do not see it: a server starts at that port.
    const mended = await startSshd({ port: closed, authorize: () => site.publicLine });
    try {
      await site.database.query("select bmdb.hold_takeover($1, 'being repaired')", [held]);
      const [answer] = await site.database.query(
        "select bmdb.enqueue_takeover($1) as asked, bmdb.enqueue_takeover($2) as held",
        [asked, held],
      );
      expect(answer).toEqual({ asked: true, held: false });
      for (const machineId of [raw, held]) {
        await site.database.query(
          `select graphile_worker.add_job('takeover', '{"machineId": "${machineId}"}')`,
        );
      }
      await waitFor(
        "both are started",
        async () => (await site.started(asked)) && (await site.started(raw)),
      );
      await waitFor(
        "the raw jobs have ended",
        async () =>
          (await site.database.query("select from graphile_worker.jobs where key is null"))
            .length === 0,
      );
      expect(await site.state(held)).toBe("held");
      expect(await site.history(held)).toEqual(["Started", "Failed"]);
      const left = await site.database.query("select machine_id from bmdb.takeover_jobs");
      expect(left).toEqual([{ machine_id: held }]);
    } finally {
      await mended.stop();
    }
  });
});

describeWithSshd("three workers", () => {
  test("take over 200 machines, each exactly once, sharing the work", async () => {
    const held = path.join(site.folder, "keys");
    await mkdir(held);
    const expected = new Map<string, string>();
    for (let n = 0; n < 200; n++) {
      const [machineId, key] = [randomUUID(), freshPublicKey()];
      expected.set(machineId, key.toString("hex"));
      await writeFile(path.join(held, machineId), key);
    }
    await writeKeyedAgent(path.join(site.folder, "agent"), site.journal, held);
    // Twelve at once are plenty for two cores, which the server and the agents share with the workers.
    const replicas = await Promise.all([1, 2, 3].map(() => site.worker("--concurrency=4")));
    const ids = [...expected.keys()];
    await site.provide(
      ids.map((_, n) => `m${n}`),
      { ids },
    );
    await waitFor("all keys are on record", async () => (await site.keys()).length === 200, 90_000);
    expect(new Map((await site.keys()).map(({ machine_id, key }) => [machine_id, key]))).toEqual(
      expected,
    );

    const journaled = await site.runs();
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
    await waitFor("the queue is empty", async () => (await site.jobs()).length === 0);
  }, 120_000);
});

describeWithSshd("a machine that fails", () => {
  test("has a code, a step, a cause to act on, the seed's backoff and one job, and holds up no other", async () => {
    await site.worker("--ssh-handshake-timeout=1s");
    const stranger = await startSshd();
    // The kernel completes the connection; whoever should answer is dead.
    const silent = net.createServer().listen(0, "127.0.0.1");
    await once(silent, "listening");
    const machines = new Map([
      ...(await site.provide(["refused"], { port: await freePort() })),
      ...(await site.provide(["silent"], { port: (silent.address() as net.AddressInfo).port })),
      ...(await site.provide(["locked"], { port: stranger.port })),
      ...(await site.provide(["exits", "rubbish", "other", "fine"])),
    ]);
    try {
      await waitFor("the sound machine is started", () => site.started(machines.get("fine") ?? ""));
      await waitFor(
        "the others have failed",
        async () =>
          (await site.database.query("select from bmdb.work_history where event = 'Failed'"))
            .length === 6,
      );
    } finally {
      await stranger.stop();
      silent.close();
    }
    const rows = await site.database.query<Record<string, string>>(
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
    const replica = await site.worker("--shutdown-grace=4s");
    const ids = [...(await site.provide(["slow1", "slow2", "slow3"])).values()];
    await waitFor(
      "three agents run",
      async () => (await site.runs()).filter((r) => r.what === "begin").length === 3,
    );
    expect(await replica.metric("takeover_attempts_running")).toBe(3);
    expect(await site.database.query("select from bmdb.work")).toHaveLength(3);
    const exit = replica.stop("SIGTERM", 4_000);
    await waitFor("it is not ready", async () => (await replica.get("/readyz")).startsWith("503"));
    expect(await exit).toBe(0);
    expect(await site.jobs()).toEqual(Array(3).fill({ locked_at: null, due: true }));
    for (const machineId of ids) {
      expect(await site.history(machineId)).toEqual(["Started", "Canceled"]);
      expect(await site.state(machineId)).toBe("pending");
    }
    expect(await site.temporaryFiles()).toEqual([]);
    expect(await site.database.query("select from bmdb.sessions")).toEqual([]);
  });

  test("in the middle of an upload leaves no temporary file on the machine", async () => {
    await truncate(path.join(site.folder, "agent"), 40_000_000);
    // Some 3 MB a second: 2 MB in flight, 600 ms until they are acknowledged.
    const slowWay = await tcpProxy(site.sshd.port, { delayMs: 300 });
    const replica = await site.worker("--shutdown-grace=4s");
    const machineId = await site.provideOne("m1", { port: slowWay.port });
    await waitFor(
      "the file is growing",
      async () => (await site.temporaryFiles()).length === 1,
      20_000,
    );
    expect(await replica.stop("SIGTERM", 6_000)).toBe(0);
    expect(await site.temporaryFiles()).toEqual([]);
    expect(await site.history(machineId)).toEqual(["Started", "Canceled"]);
    expect(await site.state(machineId)).toBe("pending");
    await slowWay.stop();
  });

  test("a second one skips the grace, and the exit code tells", async () => {
    const replica = await site.worker("--shutdown-grace=60s");
    const machineId = await site.provideOne("slow");
    await waitFor("the agent runs", async () => (await site.runs()).length === 1);
    replica.process.kill("SIGTERM");
    await waitFor("it stops", async () => (await replica.get("/readyz")).startsWith("503"));
    expect(await replica.stop("SIGTERM", 10_000)).toBe(1);
    expect(await site.state(machineId)).toBe("pending");
    expect(await site.history(machineId)).toEqual(["Started", "Canceled"]);
  });

  test("without work ends a worker at once", async () => {
    const replica = await site.worker();
    expect(await replica.stop("SIGINT", 5_000)).toBe(0);
  });
});
