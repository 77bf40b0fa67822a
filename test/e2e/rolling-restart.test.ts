import { afterEach, beforeEach, expect, test } from "vitest";
import { createInstallation, type Installation } from "../support/installation.js";
import { describeWithSshd } from "../support/sshd.js";
import { waitFor } from "../support/wait.js";

let site: Installation;
beforeEach(async () => {
  site = await createInstallation();
});
afterEach(() => site.remove());

describeWithSshd("three replicas restarted one after another under load", () => {
  test("lose no result, and no machine is charged a failure or driven twice", async () => {
    const flags = ["--concurrency=4", "--shutdown-grace=20s"];
    const replicas = await Promise.all([1, 2, 3].map(() => site.worker(...flags)));
    const ids: string[] = [];
    for (const [round, old] of replicas.entries()) {
      const more = Array.from({ length: 15 }, (_, n) => `m${round}-${n}`);
      ids.push(...(await site.provide(more)).values());
      await waitFor(
        "it runs attempts",
        async () => (await old.metric("takeover_attempts_running")) > 0,
      );
      const [code] = await Promise.all([old.stop("SIGTERM", 25_000), site.worker(...flags)]);
      expect(code).toBe(0);
    }
    await waitFor(
      "all keys are on record",
      async () => (await site.keys()).length === ids.length,
      60_000,
    );
    for (const machineId of ids) {
      expect(await site.history(machineId)).toEqual(["Started", "Finished"]);
    }
    expect((await site.runs()).filter((r) => r.what === "begin")).toHaveLength(ids.length);
    await waitFor("the queue is empty", async () => (await site.jobs()).length === 0);
  }, 120_000);
});
