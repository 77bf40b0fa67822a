import { afterEach, beforeEach, expect, test } from "vitest";
import { createInstallation, type Installation } from "../support/installation.js";
import { describeWithSshd } from "../support/sshd.js";
import { waitFor } from "../support/wait.js";

// The database goes away under a worker that runs: it comes back by itself, and no machine is blamed.

let site: Installation;
beforeEach(async () => {
  site = await createInstallation();
});
afterEach(() => site.remove());

const terminateWorkers = () =>
  site.database.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name like 'takeover %'`,
  );

describeWithSshd("a worker whose connections are all cut", () => {
  test("interrupts its attempt, tries it again, and takes new machines", async () => {
    const replica = await site.worker();
    const slow = await site.provideOne("slow");
    await waitFor("the agent runs", async () => (await site.runs()).length === 1);
    await terminateWorkers();
    await waitFor(
      "the attempt was canceled and repeated",
      async () => (await site.history(slow)).length >= 3,
      30_000,
    );
    expect(await site.history(slow)).toEqual(["Started", "Canceled", "Started"]);
    const other = await site.provideOne("m1");
    await waitFor("a new machine is started", () => site.started(other), 20_000);
    expect(await replica.get("/readyz")).toMatch(/^200 /);
    expect(await replica.metric("takeover_failures_total")).toBe(0);
  }, 60_000);
});

describeWithSshd("a worker whose LISTEN connection alone is cut", () => {
  test("picks a machine up within the poll interval, and listens again", async () => {
    const replica = await site.worker();
    await waitFor(
      "it listens",
      async () => (await replica.metric("takeover_listen_connected")) === 1,
    );
    await site.database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and query ilike 'listen%'`,
    );
    await waitFor(
      "the loss is noticed",
      async () => (await replica.metric("takeover_listen_connected")) === 0,
    );
    const machineId = await site.provideOne("m1");
    await waitFor("the machine is started", () => site.started(machineId));
    const [{ waited } = {}] = await site.database.query<{ waited: number }>(
      `select extract(epoch from at - machine_created_at)::float8 as waited
       from bmdb.work_history join bmdb.machines using (machine_id) where event = 'Started'`,
    );
    expect(waited).toBeLessThan(2.5);
    await waitFor(
      "it listens again",
      async () => (await replica.metric("takeover_listen_connected")) === 1,
    );
    expect(await site.history(machineId)).toEqual(["Started", "Finished"]);
    expect(await replica.stop()).toBe(0);
  }, 60_000);
});

describeWithSshd("a worker whose queue runner breaks on every completion", () => {
  test("makes it anew until it works again, and no machine is driven twice", async () => {
    const replica = await site.worker();
    await site.database.query(
      "revoke delete on graphile_worker._private_jobs from takeover_worker",
    );
    const first = await site.provideOne("m1");
    await waitFor("the key is on record, for our own delete needs no such right", () =>
      site.started(first),
    );
    await waitFor("the runner ended", () => replica.log().includes("it is made anew"));
    await site.database.query("grant delete on graphile_worker._private_jobs to takeover_worker");
    const second = await site.provideOne("m2");
    await waitFor("the next machine is started", () => site.started(second), 20_000);
    expect(await site.history(first)).toEqual(["Started", "Finished"]);
    await waitFor("it is ready", async () => (await replica.get("/readyz")).startsWith("200"));
    await waitFor(
      "the lost session is gone",
      async () => (await site.database.query("select from bmdb.sessions")).length === 1,
      20_000,
    );
    expect(await replica.stop()).toBe(0);
  }, 60_000);
});

describeWithSshd("a server without a connection to spare", () => {
  test("makes the worker say so, pause, spend no attempt, and come back by itself", async () => {
    const replica = await site.worker("--shutdown-grace=2s");
    const name = new URL(site.database.url).pathname.slice(1);
    await site.database.query(`alter database ${name} connection limit 0`);
    await terminateWorkers();
    await waitFor("it is not ready", async () => (await replica.get("/readyz")).startsWith("503"));
    const machineId = await site.provideOne("m1");
    await waitFor("its probe says why, and that it lives", async () =>
      /^200 .*too many connections/.test(await replica.get("/livez")),
    );
    await site.database.query(`alter database ${name} connection limit -1`);
    await waitFor("the machine is started", () => site.started(machineId), 30_000);
    await waitFor("it is ready", async () => (await replica.get("/readyz")).startsWith("200"));
    expect(await site.history(machineId)).toEqual(["Started", "Finished"]);
    expect(await replica.stop()).toBe(0);
  }, 60_000);
});
