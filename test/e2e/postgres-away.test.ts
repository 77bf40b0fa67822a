import { expect, inject, test } from "vitest";
import { type Installation, withInstallation } from "../support/installation.js";
import { createPostgresProxy, type PostgresProxy } from "../support/postgres-proxy.js";
import { describeWithSshd } from "../support/sshd.js";
import { waitFor } from "../support/wait.js";

// Side by side: they wait more than they work.
async function behindProxy(
  act: (site: Installation, proxy: PostgresProxy) => Promise<void>,
): Promise<void> {
  const proxy = await createPostgresProxy(inject("postgresUrl"));
  try {
    await withInstallation((site) => act(site, proxy), proxy.through);
  } finally {
    proxy.close();
  }
}

describeWithSshd("Postgres away under a running worker", () => {
  test.concurrent(
    "the attempts are aborted at once, the probes tell, the log stays short, and all comes back by itself",
    () =>
      behindProxy(async (site, proxy) => {
        const replica = await site.worker("--log-level=info", "--shutdown-grace=2s");
        const slow = await site.provideOne("slow");
        await site.provide(["slow1", "slow2", "slow3", "slow4", "slow5", "slow6"]);
        await waitFor("the attempts run", async () => (await site.runs()).length === 7);
        const lines = () => replica.log().split("\n").length;
        const before = lines();
        await proxy.away();
        await waitFor(
          "the attempts are over",
          async () => (await replica.metric("takeover_attempts_running")) === 0,
        );
        await waitFor("it is not ready", async () =>
          (await replica.get("/readyz")).startsWith("503"),
        );
        expect(await replica.get("/livez")).toMatch(/^200 /);
        const silence = Date.now() + 8_000;
        const meanwhile = await site.provideOne("m1");
        await waitFor("8 s are over", () => Date.now() > silence, 20_000);
        // 30 lines in 60 s are allowed; a line per poll and slot would be 40 by now.
        expect(lines() - before).toBeLessThan(25);

        await proxy.back();
        await waitFor(
          "what was inserted meanwhile is started",
          () => site.started(meanwhile),
          30_000,
        );
        await waitFor("it is ready", async () => (await replica.get("/readyz")).startsWith("200"));
        await waitFor(
          "the attempt is repeated",
          async () => (await site.history(slow)).length >= 3,
          40_000,
        );
        expect((await site.history(slow)).slice(0, 3)).toEqual(["Started", "Canceled", "Started"]);
        expect(await replica.metric("takeover_failures_total")).toBe(0);
        await waitFor(
          "LISTEN is restored",
          async () => (await replica.metric("takeover_listen_connected")) === 1,
          30_000,
        );
        await replica.stop();
      }),
    150_000,
  );

  test.concurrent(
    "answers that come half a second late cost no machine and no session anything",
    () =>
      behindProxy(async (site, proxy) => {
        const replica = await site.worker();
        proxy.slow(500);
        const machineId = await site.provideOne("m1");
        await waitFor("the machine is started", () => site.started(machineId), 40_000);
        await waitFor("its job is gone", async () => (await site.jobs()).length === 0, 20_000);
        expect(await site.history(machineId)).toEqual(["Started", "Finished"]);
        expect(replica.log()).not.toContain("the session had lapsed");
        expect(await replica.get("/readyz")).toMatch(/^200 /);
        await replica.stop();
      }),
    90_000,
  );

  test.concurrent(
    "a network that swallows everything is noticed before an agent is run, and the worker comes back",
    () =>
      behindProxy(async (site, proxy) => {
        const replica = await site.worker("--shutdown-grace=2s");
        const slow = await site.provideOne("slow");
        await waitFor("the attempt runs", async () => (await site.runs()).length === 1);
        proxy.stall();
        await waitFor(
          "the attempt is over",
          async () => replica.log().includes("the machine's lock may be lost"),
          20_000,
        );
        await proxy.back();
        await waitFor(
          "the attempt is repeated",
          async () => (await site.history(slow)).length >= 3,
          90_000,
        );
        expect((await site.history(slow)).slice(0, 3)).toEqual(["Started", "Canceled", "Started"]);
        await replica.stop();
      }),
    150_000,
  );

  test.concurrent(
    "a worker that listens on a connection that is dead, without knowing, stops within its grace and leaves no session",
    () =>
      behindProxy(async (site, proxy) => {
        const replica = await site.worker("--shutdown-grace=4s");
        proxy.stall();
        await proxy.back();
        const machineId = await site.provideOne("m1");
        await waitFor(
          "the machine is started, for it polls on new connections",
          () => site.started(machineId),
          40_000,
        );
        expect(await replica.stop("SIGTERM", 4_000)).toBe(0);
        expect(await site.database.query("select from bmdb.sessions")).toEqual([]);
      }),
    90_000,
  );
});
