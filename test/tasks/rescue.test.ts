import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { finish } from "../../src/bmdb/finish.js";
import { withTransaction } from "../../src/bmdb/transaction.js";
import { createPostgresProxy, type PostgresProxy } from "../support/postgres-proxy.js";
import {
  answers,
  createScene,
  expectAtRest,
  HOST_KEY,
  type Scene,
  takenOver,
} from "../support/scene.js";
import { waitFor, within } from "../support/wait.js";

// Once the agent has replied its key exists nowhere but in the worker: it must reach the database.

let scene: Scene;
let proxy: PostgresProxy | undefined;
beforeEach(async () => {
  scene = await createScene();
});
afterEach(async () => {
  await scene.close();
  proxy?.close();
  proxy = undefined;
});

const keysRescued = async () =>
  /^takeover_keys_rescued_total (\d+)$/m.exec(await scene.metrics.text())?.[1];

/** Ends the backend whose transaction holds the machine's lock. */
const terminateAttempt = () =>
  scene.database.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name = 'takeover attempt'
       and state = 'idle in transaction'`,
  );

test("a connection lost after the reply: the key is stored on a new one", async () => {
  const machineId = await scene.provide();
  const key = randomBytes(32);
  await scene.attempt(machineId, async () => {
    await terminateAttempt();
    return takenOver(key);
  });
  expect(await scene.agentKey(machineId)).toEqual(key);
  expect(await scene.history(machineId)).toEqual(["Started", "Finished"]);
  expect(await keysRescued()).toBe("1");
  await expectAtRest(scene, machineId);
});

test("a commit that the server refuses: the key is stored by another", async () => {
  await scene.database.query(
    `create sequence refusals;
     create function refuse_once() returns trigger language plpgsql security definer as $$
       begin
         if nextval('public.refusals') = 1 then raise exception 'refused at commit'; end if;
         return null;
       end $$;
     create constraint trigger refuse after insert on bmdb.machine_agent_started
       deferrable initially deferred for each row execute function refuse_once()`,
  );
  const machineId = await scene.provide();
  const key = randomBytes(32);
  await scene.attempt(machineId, answers(key));
  expect(await scene.agentKey(machineId)).toEqual(key);
  expect(await keysRescued()).toBe("1");
  await expectAtRest(scene, machineId);
});

test("a commit that was carried out but not answered: the key is found, and counted as no rescue", async () => {
  await scene.close();
  proxy = await createPostgresProxy(scene.database.url);
  scene = await createScene({ url: proxy.through });
  const machineId = await scene.provide();
  const key = randomBytes(32);
  const relay = proxy;
  let cut: Promise<void> = Promise.resolve();
  await scene.attempt(machineId, async () => {
    cut = relay.cutAfter("commit\0");
    return takenOver(key);
  });
  await within("the commit is cut", 1_000, cut);
  expect(await scene.agentKey(machineId)).toEqual(key);
  expect(await scene.history(machineId)).toEqual(["Started", "Finished"]);
  expect(await scene.outcomes()).toEqual({ started: 1 });
  expect(await keysRescued()).toBe("0");
  await expectAtRest(scene, machineId);
});

test("a key that was rescued is not stored again once an operator asked for a re-start", async () => {
  await scene.close();
  proxy = await createPostgresProxy(scene.database.url);
  scene = await createScene({ url: proxy.through });
  // Deletes the row in the very transaction's wake: what an operator may do before the rescue looks.
  await scene.database.query(
    `create function forget() returns trigger language plpgsql security definer as $$
       begin delete from bmdb.machine_agent_started; return null; end $$;
     create trigger forget after insert on bmdb.work_history
       for each row when (new.event = 'Finished') execute function forget()`,
  );
  const machineId = await scene.provide();
  const relay = proxy;
  await scene.attempt(machineId, async () => {
    void relay.cutAfter("commit\0");
    return takenOver(randomBytes(32));
  });
  expect(await scene.agentKey(machineId)).toBeUndefined();
  await expectAtRest(scene, machineId);
});

test.each([
  ["commits", "commit", "already_started"],
  ["is rolled back", "rollback", "started"],
])(
  "beside a half-dead backend's insert a rescue waits, and learns the truth when that %s",
  async (_name, end, result) => {
    const machineId = await scene.provide();
    const [row] = await scene.database.query<{ provider_id: string }>(
      "select provider_id from bmdb.machine_provided",
    );
    const halfDead = await scene.database.pool.connect();
    await halfDead.query("begin");
    await halfDead.query(
      "insert into bmdb.machine_agent_started (machine_id, agent_public_key) values ($1, $2)",
      [machineId, randomBytes(32)],
    );
    const rescue = withTransaction(scene.pools.transactions, { longestMs: 10_000 }, (tx) =>
      finish(
        tx,
        { machineId, jobId: "0", sessionId: "00000000-0000-4000-8000-000000000000" },
        {
          agentKey: randomBytes(32),
          hostKey: HOST_KEY,
          warnings: [],
          provider: "static",
          providerId: row?.provider_id ?? "",
        },
      ),
    );
    await waitFor(
      "the rescue waits",
      async () =>
        (await scene.database.query("select from pg_stat_activity where wait_event_type = 'Lock'"))
          .length > 0,
    );
    await halfDead.query(end);
    halfDead.release();
    expect(await rescue).toMatchObject({ result });
  },
);

test("the lock's connection lost while the steps run: they are aborted at once, the machine is not blamed", async () => {
  const machineId = await scene.provide();
  await scene.attempt(machineId, async (_machine, hooks, signal) => {
    const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
    await terminateAttempt();
    await within("the abort", 1_000, aborted);
    await expect(hooks.beforeRunAgent()).rejects.toThrow(/connection was lost/);
    throw signal.reason;
  });
  expect(await scene.history(machineId)).toEqual(["Started", "Canceled"]);
  expect(await scene.backoffSeconds(machineId)).toBeNull();
  expect(await scene.outcomes()).toEqual({ canceled: 1 });
  await expectAtRest(scene, machineId);
});

test("a statement that fails because its connection is ended is told as trouble of the database, not as a fault of ours", async () => {
  const machineId = await scene.provide();
  await scene.attempt(machineId, async (_machine, hooks) => {
    const terminated = terminateAttempt();
    // At once, so that the statement meets the end, and not its announcement.
    await hooks.beforeRunAgent().finally(() => terminated);
    for (;;) {
      await hooks.beforeRunAgent();
    }
  });
  expect(await scene.history(machineId)).toEqual(["Started", "Canceled"]);
  const log = scene.log.join("");
  expect(log).toContain("put off: database trouble");
  expect(log).not.toContain("unforeseen");
  await expectAtRest(scene, machineId);
});

test("a statement that waits too long for a lock is trouble of the database as well", async () => {
  const machineId = await scene.provide();
  const job = await scene.pick(machineId);
  const log = () => scene.log.join("");
  const other = await scene.database.pool.connect();
  await other.query("begin; lock table bmdb.machine_provided in access exclusive mode");
  const run = scene.run(job, answers());
  try {
    await waitFor("it is put off", () => log().includes("put off: "));
  } finally {
    await other.query("rollback");
    other.release();
    await run;
  }
  expect(log()).toContain("put off: database trouble");
  expect(log()).not.toContain("unforeseen");
  await expectAtRest(scene, machineId);
}, 40_000);
