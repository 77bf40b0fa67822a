import { randomBytes, randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { claimMachine } from "../../src/bmdb/claim.js";
import { postpone } from "../../src/bmdb/postpone.js";
import { withTransaction } from "../../src/bmdb/transaction.js";
import { TakeoverError } from "../../src/errors.js";
import {
  answers,
  createScene,
  expectAtRest,
  type Scene,
  type Steps,
  takenOver,
  useStage,
} from "../support/scene.js";
import { waitFor, within } from "../support/wait.js";

// What other programs, operators and workers do while an attempt runs: docs of the design call them
// interleavings. Each was seen to lose or double something with simpler statements.

const stage = useStage();
let scene: Scene;
beforeEach(async () => {
  scene = await createScene({ stage: stage() });
});
afterEach(() => {
  vi.restoreAllMocks();
  return scene.close();
});

/** Steps that do something in between, then fail or succeed. */
const failsAfter =
  (meanwhile: (machineId: string) => Promise<unknown>): Steps =>
  async ({ machineId }) => {
    await meanwhile(machineId);
    throw new TakeoverError("TAKEOVER_DIAL_REFUSED", "scripted");
  };
const succeedsAfter =
  (meanwhile: (machineId: string) => Promise<unknown>, key = randomBytes(32)): Steps =>
  async ({ machineId }) => {
    await meanwhile(machineId);
    return takenOver(key);
  };
const sql = (text: string) => (machineId: string) => scene.database.query(text, [machineId]);
/** restrict_violation since Postgres 18, foreign_key_violation before. */
const REFUSED = { code: expect.stringMatching(/^(23001|23503)$/) };
const forceUnlock = () =>
  scene.database.query("select graphile_worker.force_unlock_workers(array['pool-test'])");

describe("times", () => {
  test("a backoff counts from the end of the attempt, not from the begin of its transaction", async () => {
    vi.spyOn(Math, "random").mockReturnValue(0.5);
    const machineId = await scene.provide();
    await scene.attempt(
      machineId,
      failsAfter(() => scene.database.query("select pg_sleep(1.5)")),
    );
    const [row] = await scene.database.query<{ seconds: number }>(
      `select extract(epoch from until - at)::float8 as seconds
       from bmdb.work_backoff join bmdb.work_history using (machine_id) where event = 'Failed'`,
    );
    expect(row?.seconds).toBeCloseTo(60, 0);
  });

  test("a worker that comes late with a short delay does not bring a backoff's job forward", async () => {
    const machineId = await scene.provide();
    const job = await scene.pick(machineId);
    await scene.run(
      job,
      failsAfter(async () => {}),
    );
    const [before] = await scene.jobs(machineId);
    await withTransaction(scene.pools.transactions, { longestMs: 5_000 }, (tx) =>
      postpone(tx, { machineId, jobId: job.id }, 5),
    );
    const [after] = await scene.jobs(machineId);
    expect(after?.id).toBe(before?.id);
    expect(after?.dueIn).toBeGreaterThan(50);
  });
});

describe("a job taken from a worker that lives (its session was wrongly reaped)", () => {
  test("not picked again yet, the attempt fails: one job, under a new id, survives the library's late delete", async () => {
    const machineId = await scene.provide();
    const job = await scene.pick(machineId);
    await scene.run(job, failsAfter(forceUnlock));
    const [next] = await scene.jobs(machineId);
    expect(next?.id).not.toBe(job.id);
    expect(next?.dueIn).toBeGreaterThan(50);
    await expectAtRest(scene, machineId);
  });

  test("picked by a second worker meanwhile: that one finds the machine locked, and one job is left", async () => {
    const machineId = await scene.provide();
    const job = await scene.pick(machineId);
    await scene.run(
      job,
      failsAfter(async () => {
        await forceUnlock();
        await scene.attempt(machineId, answers());
      }),
    );
    expect(await scene.outcomes()).toEqual({ conflict: 1, failed: 1 });
    expect(await scene.agentKey(machineId)).toBeUndefined();
    await expectAtRest(scene, machineId);
  });

  test("picked by a second worker meanwhile, the first succeeds: one key, no job", async () => {
    const machineId = await scene.provide();
    const key = randomBytes(32);
    await scene.attempt(
      machineId,
      succeedsAfter(async () => {
        await forceUnlock();
        await scene.attempt(machineId, answers());
      }, key),
    );
    expect(await scene.agentKey(machineId)).toEqual(key);
    await expectAtRest(scene, machineId);
  });

  test("a job that was asked for anew and then lost its pool leaves a dead row, which the sweep deletes", async () => {
    const machineId = await scene.provide();
    await scene.pick(machineId);
    await scene.database.query("select bmdb.enqueue_takeover($1)", [machineId]);
    await forceUnlock();
    const rows = () => scene.database.query("select from graphile_worker.jobs");
    expect(await rows()).toHaveLength(2);
    await scene.database.query("select bmdb.sweep_takeovers()");
    expect(await rows()).toHaveLength(1);
    await expectAtRest(scene, machineId);
  });
});

describe("a hold set during an attempt", () => {
  test("stands when the attempt fails, and nothing is tried", async () => {
    const machineId = await scene.provide();
    await scene.attempt(machineId, failsAfter(sql("select bmdb.hold_takeover($1, 'r')")));
    expect((await scene.status(machineId)).state).toBe("held");
    await expectAtRest(scene, machineId);
  });

  test("stands when the attempt succeeds, and the key is kept", async () => {
    const machineId = await scene.provide();
    await scene.attempt(machineId, succeedsAfter(sql("select bmdb.hold_takeover($1, 'r')")));
    expect(await scene.agentKey(machineId)).toBeDefined();
    expect(await scene.database.query("select from bmdb.machine_hold")).toHaveLength(1);
    await expectAtRest(scene, machineId);
  });
});

describe("an operator's open transaction does not keep a key from being stored", () => {
  test.each([
    ["asked for the machine", "select bmdb.enqueue_takeover($1)", undefined],
    [
      "asked for it and then wants its row",
      "select bmdb.enqueue_takeover($1)",
      "select from bmdb.machines where machine_id = $1 for update",
    ],
    [
      "asked for it and then deletes its row",
      "select bmdb.enqueue_takeover($1)",
      "delete from bmdb.machines where machine_id = $1",
    ],
    ["held it", "select bmdb.hold_takeover($1, 'r')", undefined],
  ])("that %s", async (_name, first, then) => {
    const machineId = await scene.provide();
    const operator = await scene.database.pool.connect();
    let later: Promise<unknown> = Promise.resolve();
    const key = randomBytes(32);
    try {
      const job = await scene.pick(machineId);
      const attempt = scene.run(
        job,
        succeedsAfter(async () => {
          await operator.query("begin");
          await operator.query(first, [machineId]);
          if (then !== undefined) {
            later = operator.query(then, [machineId]).catch((error: Error) => error);
          }
        }, key),
      );
      // The task is done at once; only the library's completion may wait for the operator.
      await waitFor("the key is on record", async () => await scene.agentKey(machineId), 3_000);
      const refused = await within("the operator's statement", 5_000, later);
      if (then?.startsWith("delete")) {
        expect(refused).toMatchObject(REFUSED);
      }
      await operator.query(refused instanceof Error ? "rollback" : "commit");
      await attempt;
    } finally {
      operator.release();
    }
    expect(await scene.agentKey(machineId)).toEqual(key);
    for (const job of await scene.jobs(machineId)) {
      expect(job.locked).toBe(false);
      await scene.attempt(machineId, answers());
    }
    expect((await scene.outcomes()).started).toBe(1);
    await expectAtRest(scene, machineId);
  });
});

describe("what the claim sees", () => {
  test("a key that was committed between the lock and the read", async () => {
    const machineId = await scene.provide();
    const claim = await withTransaction(scene.pools.transactions, { longestMs: 5_000 }, (tx) =>
      claimMachine(
        {
          ...tx,
          async query(text, values) {
            const rows = await tx.query<Record<string, unknown>>(text, values);
            if (/for no key update nowait/.test(text)) {
              await scene.database.query(
                "insert into bmdb.machine_agent_started (machine_id, agent_public_key) values ($1, $2)",
                [machineId, randomBytes(32)],
              );
            }
            return rows as never;
          },
        },
        machineId,
      ),
    );
    expect(claim.state).toBe("started");
  });

  test("the same though the server's default isolation is repeatable read", async () => {
    scene = await createScene();
    await hostile("default_transaction_isolation", "repeatable read");
    const [row] = await withTransaction(scene.pools.transactions, { longestMs: 5_000 }, (tx) =>
      tx.query("select current_setting('transaction_isolation') as level"),
    );
    expect(row).toEqual({ level: "read committed" });
  });

  test.each([
    ["transaction_timeout", "1s"],
    ["idle_in_transaction_session_timeout", "1s"],
    ["idle_session_timeout", "1s"],
    ["statement_timeout", "1"],
    ["lock_timeout", "1"],
  ])("an attempt outlives the server's %s", async (setting, value) => {
    scene = await createScene();
    await hostile(setting, value);
    const machineId = await scene.provide();
    await scene.attempt(
      machineId,
      succeedsAfter(() =>
        scene.database.query("set transaction_timeout = 0; select pg_sleep(1.6)"),
      ),
    );
    expect(await scene.outcomes()).toEqual({ started: 1 });
  });

  /** A default of the database; the pools have no connection yet that would still have the old one. */
  async function hostile(setting: string, value: string): Promise<void> {
    const name = new URL(scene.database.url).pathname.slice(1);
    await scene.database.query(`alter database ${name} set ${setting} = '${value}'`);
  }
});

describe("asked for during an attempt that fails", () => {
  test("the attempt answers the ask: one failure, its backoff, and one job that respects it", async () => {
    const machineId = await scene.provide();
    await scene.attempt(machineId, failsAfter(sql("select bmdb.enqueue_takeover($1)")));
    expect((await scene.status(machineId)).state).toBe("backoff");
    await expectAtRest(scene, machineId);
    await scene.attempt(machineId, answers());
    const [job] = await scene.jobs(machineId);
    expect(job?.dueIn).toBeGreaterThan(50);
    await expectAtRest(scene, machineId);
  });

  test("in a transaction that commits after the failure: the ask counts", async () => {
    const machineId = await scene.provide();
    const operator = await scene.database.pool.connect();
    await operator.query("begin");
    const attempt = scene.attempt(
      machineId,
      failsAfter(() => operator.query("select bmdb.enqueue_takeover($1)", [machineId])),
    );
    await waitFor(
      "the failure waits for the operator",
      async () =>
        (await scene.database.query("select from pg_stat_activity where wait_event_type = 'Lock'"))
          .length > 0,
    );
    await operator.query("commit");
    operator.release();
    await attempt;
    await expectAtRest(scene, machineId);
  });
});

describe("an address that is corrected", () => {
  const correct = sql(
    "update bmdb.machine_provided set provider_ip_address = '192.0.2.2' where machine_id = $1",
  );

  test("while a backoff is in force is tried at once", async () => {
    const machineId = await scene.provide();
    await scene.attempt(
      machineId,
      failsAfter(async () => {}),
    );
    await correct(machineId);
    await scene.attempt(machineId, async (machine) => {
      expect(machine.address).toBe("192.0.2.2");
      return takenOver(randomBytes(32));
    });
    expect(await scene.outcomes()).toEqual({ failed: 1, started: 1 });
  });

  test("while the old one is being tried is tried at once after the failure", async () => {
    const machineId = await scene.provide();
    await scene.attempt(
      machineId,
      failsAfter(async () => {
        await correct(machineId);
        // The correction's own job is picked meanwhile, and put off by the conflict.
        await scene.attempt(machineId, answers());
      }),
    );
    const [job] = await scene.jobs(machineId);
    expect(job?.dueIn).toBeLessThanOrEqual(0.1);
    await scene.attempt(machineId, answers());
    expect(await scene.outcomes()).toEqual({ failed: 1, conflict: 1, started: 1 });
  });

  test("in a transaction that is still open when the attempt fails is tried at once as well", async () => {
    const machineId = await scene.provide();
    const operator = await scene.database.pool.connect();
    await operator.query("begin");
    const attempt = scene.attempt(
      machineId,
      failsAfter(() =>
        operator.query("update bmdb.machine_provided set ssh_port = 2222 where machine_id = $1", [
          machineId,
        ]),
      ),
    );
    await waitFor(
      "the failure waits for the operator",
      async () =>
        (await scene.database.query("select from pg_stat_activity where wait_event_type = 'Lock'"))
          .length > 0,
    );
    await operator.query("commit");
    operator.release();
    await attempt;
    expect((await scene.status(machineId)).state).toBe("pending");
    const [job] = await scene.jobs(machineId);
    expect(job?.dueIn).toBeLessThanOrEqual(0.1);
  });
});

describe("a machine provided anew, or no longer, during an attempt", () => {
  test("gets not the old hardware's key, which is logged; the new one is taken over", async () => {
    const machineId = await scene.provide();
    const key = randomBytes(32);
    await scene.attempt(
      machineId,
      succeedsAfter(
        (id) =>
          scene.database.query(
            "update bmdb.machine_provided set provider_id = $2 where machine_id = $1",
            [id, randomUUID()],
          ),
        key,
      ),
    );
    expect(await scene.agentKey(machineId)).toBeUndefined();
    expect(scene.log.join("")).toContain(key.toString("hex"));
    expect(await scene.history(machineId)).toEqual(["Started", "Canceled"]);
    await expectAtRest(scene, machineId);
    await scene.attempt(machineId, answers());
  });

  test("leaves no job where it is not provided any more", async () => {
    const machineId = await scene.provide();
    await scene.attempt(
      machineId,
      succeedsAfter(sql("delete from bmdb.machine_provided where machine_id = $1")),
    );
    expect(await scene.agentKey(machineId)).toBeUndefined();
    expect(await scene.outcomes()).toEqual({ not_eligible: 1 });
    await expectAtRest(scene, machineId);
  });

  test("fails as before, and leaves no job, where it is not provided any more", async () => {
    const machineId = await scene.provide();
    await scene.attempt(
      machineId,
      failsAfter(sql("delete from bmdb.machine_provided where machine_id = $1")),
    );
    await expectAtRest(scene, machineId);
  });

  test("to delete the machine waits for the attempt, and is then refused while facts about it stand", async () => {
    const machineId = await scene.provide();
    let deleted: Promise<unknown> = Promise.resolve();
    await scene.attempt(
      machineId,
      succeedsAfter(async () => {
        deleted = scene.database
          .query("delete from bmdb.machines where machine_id = $1", [machineId])
          .catch((error: Error) => error);
        await waitFor(
          "the deletion waits",
          async () =>
            (
              await scene.database.query(
                "select from pg_stat_activity where wait_event_type = 'Lock'",
              )
            ).length > 0,
        );
      }),
    );
    expect(await deleted).toMatchObject(REFUSED);
  });
});

describe("a key set meanwhile", () => {
  test("before the agent is run: no agent is run", async () => {
    const machineId = await scene.provide();
    const key = randomBytes(32);
    let agentRun = false;
    await scene.attempt(machineId, async (_machine, hooks) => {
      await scene.database.query(
        "insert into bmdb.machine_agent_started (machine_id, agent_public_key) values ($1, $2)",
        [machineId, key],
      );
      await hooks.beforeRunAgent();
      agentRun = true;
      return takenOver(randomBytes(32));
    });
    expect(agentRun).toBe(false);
    expect(await scene.agentKey(machineId)).toEqual(key);
    expect(await scene.history(machineId)).toEqual(["Started", "Canceled"]);
    expect(await scene.outcomes()).toEqual({ already_started: 1 });
    await expectAtRest(scene, machineId);
  });

  test("stands: the attempt's own is logged, and ends as already started", async () => {
    const machineId = await scene.provide();
    const first = randomBytes(32);
    const second = randomBytes(32);
    await scene.attempt(
      machineId,
      succeedsAfter(
        (id) =>
          scene.database.query(
            "insert into bmdb.machine_agent_started (machine_id, agent_public_key) values ($1, $2)",
            [id, first],
          ),
        second,
      ),
    );
    expect(await scene.agentKey(machineId)).toEqual(first);
    expect(scene.log.join("")).toContain(second.toString("hex"));
    expect(await scene.history(machineId)).toEqual(["Started", "Canceled"]);
    expect(await scene.outcomes()).toEqual({ already_started: 1 });
    await expectAtRest(scene, machineId);
  });
});
