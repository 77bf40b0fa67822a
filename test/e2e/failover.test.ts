import { afterAll, beforeAll, expect, test } from "vitest";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../src/demo/embedded-postgres.js";
import { createInstallation, type Installation } from "../support/installation.js";
import { createPostgresProxy, type PostgresProxy } from "../support/postgres-proxy.js";
import { describeWithSshd } from "../support/sshd.js";
import { waitFor } from "../support/wait.js";
import type { WorkerProcess } from "../support/worker-process.js";

// A server of its own: it is restarted as a standby, and promoted.

let postgres: EmbeddedPostgres;
let proxy: PostgresProxy;
let site: Installation;
let replica: WorkerProcess;
beforeAll(async () => {
  postgres = await startEmbeddedPostgres();
  proxy = await createPostgresProxy(postgres.url(""));
  site = await createInstallation(proxy.through, postgres.url(""));
  replica = await site.worker("--log-level=info", "--shutdown-grace=4s");
});
afterAll(async () => {
  await site.remove();
  proxy.close();
  await postgres.stop();
});

/** The test's own connections were ended as well: the first statements may still meet one of them. */
const forgetConnections = () =>
  waitFor("the test is connected again", () =>
    site.database.query("select").then(
      () => true,
      () => false,
    ),
  );
const lines = () => replica.log().split("\n").length;

describeWithSshd("a server that restarts as a hot standby, as in a failover", () => {
  test("is waited out with few lines; once it is promoted the interrupted attempt and a new one run", async () => {
    const slow = await site.provideOne("slow");
    await waitFor("the attempt runs", async () => (await site.runs()).length === 1);
    // The server's own folder is where its programs run.
    await site.database.query("copy (select) to program 'touch standby.signal'");
    const before = lines();
    await postgres.restart("fast");
    await forgetConnections();
    expect(await site.database.query("select pg_is_in_recovery() as standby")).toEqual([
      { standby: true },
    ]);
    await waitFor("the probes say why", async () =>
      /^200 .*(read-only|recovery)/.test(await replica.get("/livez")),
    );
    expect(await replica.get("/readyz")).toMatch(/^503 /);
    expect(await replica.metric("takeover_attempts_running")).toBe(0);
    expect(await site.database.query("select from bmdb.sessions")).toHaveLength(1);
    const patience = Date.now() + 5_000;
    await waitFor("some polls have failed", () => Date.now() > patience);
    expect(lines() - before).toBeLessThan(25);

    await site.database.query("select pg_promote()");
    await postgres.restart("fast");
    await forgetConnections();
    // A session that lapsed while nobody could keep it is its owner's for as long as one lives.
    await site.database.query(
      `insert into bmdb.sessions select gen_random_uuid(), 'a test', '', 'p', now(), 4, now() - interval '1 h';
       select bmdb.reap_sessions()`,
    );
    expect(await site.database.query("select from bmdb.sessions where pool_id = 'p'")).toHaveLength(
      1,
    );
    const machineId = await site.provideOne("m1");
    await waitFor("a new machine is started", () => site.started(machineId), 40_000);
    await waitFor(
      "the interrupted attempt is repeated",
      async () => (await site.history(slow)).length >= 3,
      40_000,
    );
    expect((await site.history(slow)).slice(0, 3)).toEqual(["Started", "Canceled", "Started"]);
    expect(await replica.metric("takeover_failures_total")).toBe(0);
    await waitFor(
      "it listens again",
      async () => (await replica.metric("takeover_listen_connected")) === 1,
      20_000,
    );
  }, 150_000);
});

describeWithSshd("a worker that is told to stop while its Postgres is down", () => {
  test("ends within its grace, exit 0, and says what it could not do", async () => {
    await proxy.away();
    await waitFor("it is not ready", async () => (await replica.get("/readyz")).startsWith("503"));
    expect(await replica.stop("SIGTERM", 12_000)).toBe(0);
    expect(replica.log()).toContain("stopped");
  }, 60_000);
});
