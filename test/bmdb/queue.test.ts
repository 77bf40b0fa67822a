import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, test } from "vitest";
import { useDatabase } from "../support/postgres.js";

const database = useDatabase();

const PROVIDE = (count: number) => `
  with new as (insert into bmdb.machines select from generate_series(1, ${count}) returning machine_id)
  insert into bmdb.machine_provided (machine_id, provider, provider_id, provider_ip_address)
  select machine_id, 'static', machine_id, '192.0.2.1' from new`;

const jobs = () =>
  database.query<{ machine_id: string; due: boolean }>(
    `select machine_id, run_at <= clock_timestamp() as due from bmdb.takeover_jobs
     where retries_left or locked_at is not null`,
  );
const clearJobs = () => database.query("delete from graphile_worker._private_jobs");
const machines = async () =>
  (await database.query<{ machine_id: string }>("select machine_id from bmdb.machines")).map(
    ({ machine_id }) => machine_id,
  );

describe("the triggers", () => {
  test("enqueue each machine of a statement once, with one notification", async () => {
    const listener = new pg.Client(database.url);
    await listener.connect();
    const heard: string[] = [];
    listener.on("notification", ({ payload }) => heard.push(payload ?? ""));
    await listener.query('listen "jobs:insert"');
    await database.query(PROVIDE(500));
    await listener.query("select");
    await listener.end();
    expect(await jobs()).toHaveLength(500);
    expect(heard).toHaveLength(1);
  });

  test("leave no job of a statement that is rolled back", async () => {
    await database.query(`begin; ${PROVIDE(3)}; rollback`);
    expect(await jobs()).toEqual([]);
  });

  test("do nothing for a statement without rows", async () => {
    await database.query(PROVIDE(1));
    await clearJobs();
    await database.query(
      `insert into bmdb.machine_provided (machine_id, provider, provider_id)
       select machine_id, 'static', 'x' from bmdb.machines on conflict do nothing;
       update bmdb.machine_provided set provider = 'p' where false;
       delete from bmdb.machine_agent_started`,
    );
    expect(await jobs()).toEqual([]);
  });

  test("enqueue only what is eligible", async () => {
    await database.query("insert into bmdb.provider_pause values ('static', 'moving house')");
    await database.query(PROVIDE(2));
    expect(await jobs()).toEqual([]);
  });

  test("take a machine provided anew for new hardware: its old host key and backoff go", async () => {
    await database.query(PROVIDE(1));
    await clearJobs();
    await database.query(`
      insert into bmdb.machine_ssh_host_key (machine_id, host_key) select machine_id, 'ssh-ed25519 AAAA' from bmdb.machines;
      insert into bmdb.work_backoff (machine_id, process, kind, until)
        select machine_id, 'takeover', 'failure', now() + interval '1 h' from bmdb.machines;
      delete from bmdb.machine_provided;
      insert into bmdb.machine_provided (machine_id, provider, provider_id)
        select machine_id, 'static', 'new' from bmdb.machines`);
    expect(await database.query("select from bmdb.machine_ssh_host_key")).toEqual([]);
    expect(await database.query("select from bmdb.work_backoff")).toEqual([]);
    expect(await jobs()).toMatchObject([{ due: true }]);
  });

  test.each([
    ["provider_id", "'other'", 1, 0],
    ["provider_ip_address", "'192.0.2.9'", 1, 1],
    ["ssh_port", "2222", 1, 1],
    ["ssh_user", "'admin'", 1, 1],
    ["provider_location", "'elsewhere'", 0, 1],
    ["provider_ip_address", "provider_ip_address", 0, 1],
  ])(
    "on a change of %s to %s enqueue %i job and keep %i host key",
    async (column, value, jobCount, hostKeys) => {
      await database.query(PROVIDE(1));
      await clearJobs();
      await database.query(
        "insert into bmdb.machine_ssh_host_key (machine_id, host_key) select machine_id, 'ssh-ed25519 AAAA' from bmdb.machines",
      );
      await database.query(`update bmdb.machine_provided set ${column} = ${value}`);
      expect(await jobs()).toHaveLength(jobCount);
      expect(await database.query("select from bmdb.machine_ssh_host_key")).toHaveLength(hostKeys);
    },
  );

  test("on the deletion of a started agent's row enqueue that machine", async () => {
    await database.query(PROVIDE(2));
    await clearJobs();
    const [first, second] = await machines();
    await database.query(
      `insert into bmdb.machine_agent_started (machine_id, agent_public_key)
       values ($1, decode(repeat('01', 32), 'hex')), ($2, decode(repeat('02', 32), 'hex'))`,
      [first, second],
    );
    await database.query("delete from bmdb.machine_agent_started where machine_id = $1", [first]);
    expect(await jobs()).toMatchObject([{ machine_id: first, due: true }]);
  });
});

describe("put", () => {
  const put = (client: pg.ClientBase, ids: string[], keep = false) =>
    client.query(
      "select bmdb.put_takeover_jobs($1, array_fill(clock_timestamp(), array[cardinality($1::uuid[])]), $2)",
      [ids, keep],
    );
  /** Locks due jobs as graphile-worker does and ends them as an attempt does, as fast as it can. */
  async function drain(until: () => boolean): Promise<void> {
    const client = new pg.Client(database.url);
    await client.connect();
    while (!until()) {
      const { rows } = await client.query(
        `update graphile_worker._private_jobs set attempts = attempts + 1, locked_by = 'w', locked_at = now()
         where id in (
           select id from graphile_worker._private_jobs
           where is_available and run_at <= now() order by priority, run_at, id
           for update skip locked limit 5
         ) returning id`,
      );
      await client.query("select bmdb.delete_takeover_job(id) from unnest($1::bigint[]) as id", [
        rows.map(({ id }) => id),
      ]);
    }
    await client.end();
  }

  test("keeps the time of a job that waits, where asked to", async () => {
    const id = randomUUID();
    await database.query(
      "select bmdb.put_takeover_jobs(array[$1::uuid], array[now() + interval '1 h'], false)",
      [id],
    );
    const client = await database.pool.connect();
    await put(client, [id], true);
    expect(await jobs()).toMatchObject([{ due: false }]);
    await put(client, [id], false);
    expect(await jobs()).toMatchObject([{ due: true }]);
    client.release();
  });

  test("adds one job for a machine that is named twice, and none for null", async () => {
    const id = randomUUID();
    await database.query(
      "select bmdb.put_takeover_jobs(array[$1, $1, null]::uuid[], array_fill(now(), array[3]), false)",
      [id],
    );
    await database.query("select bmdb.put_takeover_jobs(null, null, false)");
    expect(await jobs()).toMatchObject([{ machine_id: id }]);
  });

  test("loses no wake-up to a job that is just being locked", async () => {
    const ids = Array.from({ length: 5 }, () => randomUUID());
    const deadline = Date.now() + 2_000;
    const over = () => Date.now() > deadline;
    const workers = [drain(over), drain(over)];
    const writer = new pg.Client(database.url);
    await writer.connect();
    let rounds = 0;
    const lost: number[] = [];
    while (!over()) {
      await writer.query("begin");
      await put(writer, ids);
      // What this transaction has put cannot be locked before its commit: each machine must be there.
      const { rows } = await writer.query(
        "select count(distinct machine_id)::integer as count from bmdb.takeover_jobs where locked_at is null and retries_left",
      );
      await writer.query("commit");
      rounds += 1;
      if (rows[0].count !== ids.length) {
        lost.push(rounds);
      }
    }
    await writer.end();
    await Promise.all(workers);
    expect(rounds).toBeGreaterThan(20);
    expect(lost).toEqual([]);
  });

  test("survives writers with overlapping machines while jobs run", async () => {
    const ids = Array.from({ length: 100 }, () => randomUUID());
    const deadline = Date.now() + 3_000;
    const over = () => Date.now() > deadline;
    const write = async (seed: number) => {
      const client = new pg.Client(database.url);
      await client.connect();
      for (let round = 0; !over(); round++) {
        const some = ids.filter((_, index) => (index * 7 + round * 13 + seed) % 4 === 0);
        await put(client, round % 2 ? some : some.reverse());
      }
      await client.end();
    };
    await Promise.all([write(0), write(1), write(2), write(3), drain(over), drain(over)]);
  });
});

describe("the sweep", () => {
  const sweep = async () =>
    (await database.query<{ count: number }>("select bmdb.sweep_takeovers() as count"))[0]?.count;

  test("puts eligible machines that have no job, in batches", async () => {
    await database.query(PROVIDE(600));
    await clearJobs();
    expect(await sweep()).toBe(500);
    expect(await sweep()).toBe(100);
    expect(await sweep()).toBe(0);
    expect(await jobs()).toHaveLength(600);
  });

  test("brings a job forward whose backoff was ended by hand", async () => {
    await database.query(PROVIDE(1));
    await database.query(
      "update graphile_worker._private_jobs set run_at = now() + interval '1 h'",
    );
    expect(await sweep()).toBe(1);
    expect(await jobs()).toMatchObject([{ due: true }]);
  });

  test("leaves a job alone that runs, or is due within the minute", async () => {
    await database.query(PROVIDE(2));
    const [running, soon] = await machines();
    await database.query(
      "update graphile_worker._private_jobs set locked_at = now(), locked_by = 'w' where payload ->> 'machineId' = $1",
      [running],
    );
    await database.query(
      "update graphile_worker._private_jobs set run_at = now() + interval '30 s' where payload ->> 'machineId' = $1",
      [soon],
    );
    expect(await sweep()).toBe(0);
  });

  test("puts a machine whose job used up the few attempts it was given by hand", async () => {
    await database.query(PROVIDE(1));
    await database.query("update graphile_worker._private_jobs set attempts = 3, max_attempts = 3");
    expect(await sweep()).toBe(1);
    await sweep();
    expect(await database.query("select from graphile_worker.jobs")).toHaveLength(1);
  });

  test("leaves out what an operator's open transaction holds, and puts the others", async () => {
    await database.query(PROVIDE(40));
    await clearJobs();
    const [held] = await machines();
    const operator = await database.pool.connect();
    try {
      await operator.query("begin");
      await operator.query("select bmdb.enqueue_takeover($1)", [held]);
      expect(await sweep()).toBe(39);
    } finally {
      await operator.query("rollback");
      operator.release();
    }
    expect(await sweep()).toBe(1);
  });

  test("does nothing while another sweeps", async () => {
    await database.query(PROVIDE(1));
    await clearJobs();
    const other = await database.pool.connect();
    await other.query("begin; select bmdb.sweep_takeovers()");
    expect(await sweep()).toBe(0);
    await other.query("rollback");
    other.release();
  });
});
