import { writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { type Installation, withInstallation } from "../support/installation.js";
import { describeWithSshd } from "../support/sshd.js";
import { waitFor } from "../support/wait.js";

const counter = (site: Installation) => async (condition: string) =>
  (await site.database.query(`select from bmdb.work_history where ${condition}`)).length;

describeWithSshd("a worker that is killed with 20 attempts running", () => {
  test.concurrent(
    "all 20 run elsewhere within 20 s; nothing is left to clean up",
    () =>
      withInstallation(async (site) => {
        const count = counter(site);
        await writeFile(path.join(site.folder, "agent"), "#!/bin/sh\nexec sleep 60\n");
        const doomed = await site.worker("--concurrency=20");
        await site.provide(Array.from({ length: 20 }, (_, n) => `slow${n}`));
        await waitFor("20 attempts run", async () => (await count("event = 'Started'")) === 20);
        const other = await site.worker("--concurrency=20", "--shutdown-grace=4s");
        await doomed.stop("SIGKILL");
        await waitFor(
          "all run again",
          async () => (await count("event = 'Started'")) === 40,
          20_000,
        );
        expect(await count("event = 'Canceled'")).toBe(20);
        expect(await other.metric("takeover_jobs_reaped_total")).toBe(20);
        expect(await site.database.query("select from bmdb.sessions")).toHaveLength(1);
        expect(await site.database.query("select from bmdb.work")).toHaveLength(20);
        expect(await count("event = 'Failed'")).toBe(0);
        expect(await other.stop("SIGTERM")).toBe(0);
      }),
    90_000,
  );
});

describeWithSshd("a worker that is frozen longer than every timeout", () => {
  test.concurrent(
    "starts no agent on a machine any more, once it goes on",
    () =>
      withInstallation(async (site) => {
        const frozen = await site.worker("--concurrency=1", "--shutdown-grace=1s");
        const machineId = await site.provideOne("slow");
        await waitFor("the attempt runs", async () => (await site.runs()).length === 1);
        frozen.process.kill("SIGSTOP");
        const other = await site.worker("--concurrency=1", "--shutdown-grace=2s");
        await site.database.query(
          "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'takeover attempt' and state = 'idle in transaction'",
        );
        await waitFor(
          "the other worker took over",
          async () => (await site.runs()).filter((r) => r.what === "begin").length === 2,
          40_000,
        );
        frozen.process.kill("SIGCONT");
        await waitFor(
          "the frozen one put its attempt off, and its queue ended the job",
          () => /database trouble.*job ended/s.test(frozen.log()),
          20_000,
        );
        expect(await site.history(machineId)).toEqual(["Started", "Canceled", "Started"]);
        expect((await site.runs()).filter((r) => r.what === "begin")).toHaveLength(2);
        // The other's, though the frozen one ended the job that it had.
        expect(await site.database.query("select from bmdb.work")).toHaveLength(1);
        await other.stop();
      }),
    120_000,
  );
});
