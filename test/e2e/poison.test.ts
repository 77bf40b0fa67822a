import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createInstallation, type Installation } from "../support/installation.js";
import { describeWithSshd } from "../support/sshd.js";
import { waitFor } from "../support/wait.js";

let site: Installation;
beforeEach(async () => {
  site = await createInstallation();
});
afterEach(() => site.remove());

const NAMES = [
  "long ago",
  "queued 1",
  "queued 2",
  "locked by nobody",
  "key of another",
  "payload of another",
  "large payload",
  "open since ever",
  "odd backoff",
  "odd host key",
  "no address",
  "odd user",
] as const;
type Name = (typeof NAMES)[number];

/** Beside the rows that our own code writes, whatever a hand can get past the constraints. */
const ROWS: Readonly<Record<Exclude<Name, "payload of another">, string>> = {
  "long ago": "select graphile_worker.add_job('takeover', $payload, run_at => '-infinity')",
  "queued 1": "select graphile_worker.add_job('takeover', $payload, queue_name => 'by hand')",
  "queued 2": "select graphile_worker.add_job('takeover', $payload, queue_name => 'by hand')",
  "locked by nobody": `select bmdb.enqueue_takeover($id);
    update graphile_worker._private_jobs
    set locked_at = now() - interval '1 min' where key = 'takeover:' || $id`,
  "key of another": `select graphile_worker.add_job('takeover',
      json_build_object('machineId', (select machine_id from bmdb.machine_provided
                                      where provider_id = 'payload of another')),
      job_key => 'takeover:' || $id)`,
  "large payload": `select graphile_worker.add_job('takeover',
      json_build_object('machineId', $id, 'more', repeat('x', 1000000)))`,
  "open since ever": `insert into bmdb.work_history (machine_id, process, event, at)
      values ($id, 'takeover', 'Started', '-infinity');
    select bmdb.enqueue_takeover($id)`,
  "odd backoff": `update bmdb.machine_provided set ssh_port = 1 where machine_id = $id;
    update bmdb.work_backoff set last_interval_seconds = 'NaN', until = '-infinity'
    where machine_id = $id`,
  "odd host key": `insert into bmdb.machine_ssh_host_key values ($id, 'ssh-ed25519 AAAA');
    select bmdb.enqueue_takeover($id)`,
  "no address": `update bmdb.machine_provided set provider_ip_address = E'\\x07\\n; rm -rf /'
    where machine_id = $id`,
  "odd user": "update bmdb.machine_provided set ssh_user = E'root\\n-l x' where machine_id = $id",
};

const RUBBISH = ["null", "[]", '"text"', '{"machineId": {}}', '{"machineId": "\\u0007"}'];

const ENDS: Readonly<Partial<Record<Name, string>>> = {
  "odd backoff": "Failed TAKEOVER_DIAL_REFUSED",
  "odd host key": "Failed TAKEOVER_DIAL_HOST_KEY_MISSING",
  "no address": "Failed TAKEOVER_LOCATE_NO_ADDRESS",
  "odd user": "Failed TAKEOVER_DIAL_AUTH_FAILED",
};

describeWithSshd("rows and jobs that no code should have written", () => {
  test("are done, dropped with a line in the log, or put off: none stops the worker or another machine", async () => {
    const { database } = site;
    const machines = await site.provide(NAMES);
    // Their jobs go, so that only what was written by hand is there.
    await database.query("delete from graphile_worker._private_jobs");
    for (const [name, statements] of Object.entries(ROWS)) {
      const id = machines.get(name) ?? "";
      await database.query(
        statements
          .replaceAll("$payload", `json_build_object('machineId', '${id}')`)
          .replaceAll("$id", `uuid '${id}'`),
      );
    }
    for (const payload of [...RUBBISH, JSON.stringify({ machineId: randomUUID() })]) {
      await database.query("select graphile_worker.add_job('takeover', $1::json)", [payload]);
    }
    const worker = await site.worker();
    await waitFor(
      "each machine has come to its end, but the one whose job was another's",
      async () => {
        const ends = await database.query(
          "select distinct machine_id from bmdb.work_history where event <> 'Canceled' and event <> 'Started'",
        );
        return ends.length === NAMES.length - 1;
      },
      30_000,
    );
    // The worker does so every minute.
    await database.query("select bmdb.sweep_takeovers()");
    await waitFor("the last is started too", () =>
      site.started(machines.get("key of another") ?? ""),
    );
    for (const [name, machineId] of machines) {
      const [end] = await database.query<{ event: string }>(
        `select concat_ws(' ', event, code) as event from bmdb.work_history
         where machine_id = $1 order by history_id desc limit 1`,
        [machineId],
      );
      expect([name, end?.event]).toEqual([name, ENDS[name as Name] ?? "Finished"]);
    }
    const backoffs = await database.query<{ soon: boolean }>(
      "select until between clock_timestamp() and clock_timestamp() + interval '2 h' as soon from bmdb.work_backoff",
    );
    expect(backoffs).toEqual(Object.keys(ENDS).map(() => ({ soon: true })));
    await waitFor(
      "nothing is left to run but what is put off",
      async () => (await site.jobs()).filter((job) => job.due).length === 0,
    );
    expect(worker.log().split("a takeover job was dropped")).toHaveLength(RUBBISH.length + 1);
    expect(await worker.get("/readyz")).toMatch(/^200 /);
    expect(await worker.get("/metrics")).not.toMatch(/ (NaN|[+-]?Inf)$/m);
    expect(await worker.stop()).toBe(0);
  }, 90_000);
});
