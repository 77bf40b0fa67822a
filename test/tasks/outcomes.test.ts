import { randomBytes } from "node:crypto";
import type { Job } from "graphile-worker";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Snooze, TakeoverError } from "../../src/errors.js";
import {
  answers,
  createScene,
  expectAtRest,
  HOST_KEY,
  type Scene,
  SHOWN_HOST_KEY,
  type Steps,
  takenOver,
  useStage,
} from "../support/scene.js";

const stage = useStage();
let scene: Scene;
beforeEach(async () => {
  scene = await createScene({ stage: stage() });
});
afterEach(() => scene.close());

const failsWith =
  (code: ConstructorParameters<typeof TakeoverError>[0], message = "scripted"): Steps =>
  async () => {
    throw new TakeoverError(code, message);
  };
const neverCalled: Steps = async () => {
  throw new Error("the steps were run");
};

describe("a takeover that succeeds", () => {
  test("leaves the key, the host key, Started and Finished, and no job", async () => {
    const machineId = await scene.provide();
    const key = randomBytes(32);
    await scene.attempt(machineId, answers(key));
    expect(await scene.agentKey(machineId)).toEqual(key);
    expect(await scene.history(machineId)).toEqual(["Started", "Finished"]);
    const [hostKey] = await scene.database.query("select host_key from bmdb.machine_ssh_host_key");
    expect(hostKey).toEqual({ host_key: HOST_KEY });
    expect(await scene.status(machineId)).toMatchObject({ state: "started", code: null });
    await expectAtRest(scene, machineId);
    expect(await scene.outcomes()).toEqual({ started: 1 });
  });

  test("is told in the log with its key, and its agent's warnings are logged and kept", async () => {
    const quiet = await scene.provide();
    const warning = await scene.provide();
    const key = randomBytes(32);
    await scene.attempt(quiet, answers(key));
    await scene.attempt(warning, async () => ({
      ...takenOver(randomBytes(32)),
      warnings: ["the clock is an hour off"],
    }));
    const lines = scene.log.map((line) => JSON.parse(line));
    expect(lines).toContainEqual(
      expect.objectContaining({
        msg: "taken over",
        level: "info",
        agentPublicKey: key.toString("hex"),
        hostKey: SHOWN_HOST_KEY,
      }),
    );
    expect(lines).toContainEqual(
      expect.objectContaining({ level: "warn", warnings: ["the clock is an hour off"] }),
    );
    const kept = await scene.database.query(
      "select warnings from bmdb.work_history where event = 'Finished' order by history_id",
    );
    expect(kept).toEqual([{ warnings: null }, { warnings: ["the clock is an hour off"] }]);
  });

  test("after failures leaves no backoff and no job", async () => {
    const machineId = await scene.provide();
    await scene.attempt(machineId, failsWith("TAKEOVER_DIAL_REFUSED"));
    await scene.database.query("select bmdb.enqueue_takeover($1)", [machineId]);
    await scene.attempt(machineId, answers());
    expect(await scene.backoffSeconds(machineId)).toBeNull();
    await expectAtRest(scene, machineId);
  });

  test("records how long the attempt took, its session and its job", async () => {
    const machineId = await scene.provide();
    const job = await scene.pick(machineId);
    await scene.run(job, answers());
    const rows = await scene.database.query(
      `select job_id::text, session_id is not null as session, duration > interval '0' as lasted
       from bmdb.work_history where machine_id = $1 order by history_id`,
      [machineId],
    );
    expect(rows).toEqual([
      { job_id: job.id, session: true, lasted: null },
      { job_id: job.id, session: true, lasted: true },
    ]);
  });

  test("is wanted anew once the row of the started agent is deleted", async () => {
    const machineId = await scene.provide();
    await scene.attempt(machineId, answers());
    await scene.database.query("delete from bmdb.machine_agent_started where machine_id = $1", [
      machineId,
    ]);
    const key = randomBytes(32);
    await scene.attempt(machineId, answers(key));
    expect(await scene.agentKey(machineId)).toEqual(key);
    await expectAtRest(scene, machineId);
  });
});

describe("the host key that a takeover left", () => {
  test("is what the steps of the machine's next attempt are told, and not another machine's", async () => {
    const machineId = await scene.provide();
    const told: (string | null)[] = [];
    const look: Steps = (machine, hooks, signal) => {
      told.push(machine.recordedHostKey);
      return answers()(machine, hooks, signal);
    };
    await scene.attempt(machineId, look);
    await scene.database.query("delete from bmdb.machine_agent_started");
    await scene.attempt(machineId, look);
    await scene.attempt(await scene.provide(), look);
    expect(told).toEqual([null, HOST_KEY, null]);
  });

  test("is none where the attempt failed: a machine may change its keys while it boots", async () => {
    const machineId = await scene.provide();
    await scene.attempt(machineId, async (machine, hooks, signal) => {
      hooks.onHostKey("new");
      return failsWith("TAKEOVER_DIAL_AUTH_FAILED")(machine, hooks, signal);
    });
    expect(await scene.history(machineId)).toEqual(["Started", "Failed TAKEOVER_DIAL_AUTH_FAILED"]);
    expect(await scene.database.query("select from bmdb.machine_ssh_host_key")).toEqual([]);
  });
});

describe("a failure", () => {
  test.each([
    ["TAKEOVER_DIAL_REFUSED", 60],
    ["TAKEOVER_LOCATE_NO_ADDRESS", 30],
    ["TAKEOVER_DIAL_HOST_KEY_CHANGED", 3600],
  ] as const)(
    "%s backs off for the seed's %d s and leaves one job for its end",
    async (code, seconds) => {
      const machineId = await scene.provide();
      await scene.attempt(machineId, failsWith(code, "what was seen"));
      expect(await scene.history(machineId)).toEqual(["Started", `Failed ${code}`]);
      expect(await scene.status(machineId)).toEqual({
        state: "backoff",
        code,
        cause: "what was seen",
      });
      const backoff = await scene.backoffSeconds(machineId);
      expect(backoff).toBeGreaterThan(seconds * 0.9 - 1);
      expect(backoff).toBeLessThan(seconds * 1.1);
      const [job] = await scene.jobs(machineId);
      expect(job?.dueIn).toBeCloseTo(backoff ?? 0, 0);
      await expectAtRest(scene, machineId);
      expect(await scene.outcomes()).toEqual({ failed: 1 });
    },
  );

  test.each([
    [0, 54],
    [0.999_999, 66],
  ])(
    "is tried again sooner or later than others of its kind (by %d: after %d s)",
    async (dice, seconds) => {
      const random = vi.spyOn(Math, "random").mockReturnValue(dice);
      try {
        const machineId = await scene.provide();
        await scene.attempt(machineId, failsWith("TAKEOVER_DIAL_CLOSED"));
        const backoff = await scene.backoffSeconds(machineId);
        expect(backoff).toBeGreaterThan(seconds - 2);
        expect(backoff).toBeLessThanOrEqual(seconds);
      } finally {
        random.mockRestore();
      }
    },
  );

  test("is put off by the database's clock, whatever the worker's own says", async () => {
    const machineId = await scene.provide();
    const hourAhead = Date.now() + 3_600_000;
    const clock = vi.spyOn(Date, "now").mockImplementation(() => hourAhead);
    try {
      await scene.attempt(machineId, failsWith("TAKEOVER_DIAL_REFUSED"));
    } finally {
      clock.mockRestore();
    }
    expect(await scene.backoffSeconds(machineId)).toBeLessThan(67);
    expect((await scene.jobs(machineId))[0]?.dueIn).toBeLessThan(67);
    expect(await scene.metrics.text()).not.toMatch(/takeover_job_wait_seconds_sum -/);
  });

  test("that follows another backs off longer, and an ask sets it back", async () => {
    const machineId = await scene.provide();
    const interval = async () => {
      const [row] = await scene.database.query<{ last: number }>(
        "select last_interval_seconds as last from bmdb.work_backoff",
      );
      return row?.last;
    };
    const failNow = async () => {
      await scene.database.query(
        "update graphile_worker._private_jobs set run_at = now() - interval '1 s'",
      );
      await scene.database.query("update bmdb.work_backoff set until = now() - interval '1 s'");
      await scene.attempt(machineId, failsWith("TAKEOVER_DIAL_REFUSED"));
    };
    await failNow();
    expect(await interval()).toBe(60);
    await failNow();
    expect(await interval()).toBe(72);
    await scene.database.query("select bmdb.enqueue_takeover($1)", [machineId]);
    expect(await interval()).toBeNull();
    await failNow();
    expect(await interval()).toBe(60);
  });

  test("because another machine has this very key names that machine and stores nothing", async () => {
    const first = await scene.provide();
    const second = await scene.provide();
    const key = randomBytes(32);
    await scene.attempt(first, answers(key));
    await scene.attempt(second, answers(key));
    expect(await scene.agentKey(second)).toBeUndefined();
    const status = await scene.status(second);
    expect(status).toMatchObject({ state: "backoff", code: "TAKEOVER_VERIFY_KEY_TAKEN" });
    expect(status.cause).toContain(first);
    await expectAtRest(scene, second);
  });

  test("of an attempt whose time is up is charged to the step that ran", async () => {
    scene = await createScene({ stage: stage(), attemptTimeoutMs: 100 });
    const machineId = await scene.provide();
    await scene.attempt(machineId, async (_machine, hooks, signal) => {
      hooks.onStepStart("upload");
      return await aborted(signal);
    });
    expect(await scene.status(machineId)).toMatchObject({
      code: "TAKEOVER_UPLOAD_TIMEOUT",
      cause: expect.stringContaining("--attempt-timeout"),
    });
    await expectAtRest(scene, machineId);
  });
});

describe("without blame", () => {
  test("a machine that is not ready is snoozed and looked at again", async () => {
    const machineId = await scene.provide();
    await scene.attempt(machineId, async () => {
      throw new Snooze("the provider says: provisioning", 45);
    });
    expect(await scene.status(machineId)).toMatchObject({
      state: "snoozed",
      code: null,
      cause: "the provider says: provisioning",
    });
    expect(await scene.history(machineId)).toEqual(["Started", "Canceled"]);
    expect(await scene.backoffSeconds(machineId)).toBeGreaterThan(40);
    await expectAtRest(scene, machineId);
  });

  test("a snooze does not make the machine forget its failures", async () => {
    const machineId = await scene.provide();
    await scene.attempt(machineId, failsWith("TAKEOVER_DIAL_REFUSED"));
    await scene.database.query("update bmdb.work_backoff set until = now() - interval '1 s'");
    await scene.database.query(
      "update graphile_worker._private_jobs set run_at = now() - interval '1 s'",
    );
    await scene.attempt(machineId, async () => {
      throw new Snooze("not ready", 45);
    });
    const [row] = await scene.database.query("select last_interval_seconds from bmdb.work_backoff");
    expect(row).toEqual({ last_interval_seconds: 60 });
  });

  test("a machine that another attempt holds is a conflict, looked at again in 10 to 15 s", async () => {
    const machineId = await scene.provide();
    const job = await scene.pick(machineId);
    const other = await scene.database.pool.connect();
    await other.query("begin");
    await other.query("select from bmdb.machines where machine_id = $1 for no key update", [
      machineId,
    ]);
    await scene.run(job, neverCalled);
    await other.query("rollback");
    other.release();
    const [next] = await scene.jobs(machineId);
    expect(next?.dueIn).toBeGreaterThan(9);
    expect(next?.dueIn).toBeLessThan(15.1);
    expect(await scene.history(machineId)).toEqual([]);
    expect(await scene.outcomes()).toEqual({ conflict: 1 });
    await expectAtRest(scene, machineId);
  });

  test("a worker that shuts down cancels its attempt and leaves a job that is due", async () => {
    const machineId = await scene.provide();
    await scene.attempt(machineId, async (_machine, _hooks, signal) => {
      scene.shutDown();
      return await aborted(signal);
    });
    expect(await scene.history(machineId)).toEqual(["Started", "Canceled"]);
    expect(await scene.backoffSeconds(machineId)).toBeNull();
    const [job] = await scene.jobs(machineId);
    expect(job?.dueIn).toBeLessThanOrEqual(0);
    await expectAtRest(scene, machineId);
    expect(await scene.outcomes()).toEqual({ canceled: 1 });
  });

  test("an unforeseen error is logged, and the machine is looked at again without a backoff", async () => {
    const machineId = await scene.provide();
    await scene.attempt(machineId, async () => {
      throw new TypeError("a fault of ours");
    });
    expect(scene.log.join("")).toContain("a fault of ours");
    expect(await scene.backoffSeconds(machineId)).toBeNull();
    await expectAtRest(scene, machineId);
  });
});

describe("a job with nothing to do ends, and leaves no trace in the history", () => {
  const insertKey = "insert into bmdb.machine_agent_started (machine_id, agent_public_key)";
  test.each([
    ["held", "select bmdb.hold_takeover($1, 'being repaired')", "held"],
    [
      "paused",
      "insert into bmdb.provider_pause select provider, 'r' from bmdb.machine_provided where machine_id = $1",
      "paused",
    ],
    ["started by hand", `${insertKey} values ($1, decode(repeat('ab', 32), 'hex'))`, "started"],
    [
      "no longer provided",
      "delete from bmdb.machine_provided where machine_id = $1",
      "not_provided",
    ],
  ])("for a machine that is %s", async (_name, statement, state) => {
    const machineId = await scene.provide();
    const job = await scene.pick(machineId);
    await scene.database.query(statement, [machineId]);
    await scene.run(job, neverCalled);
    expect((await scene.status(machineId)).state).toBe(state);
    expect(await scene.history(machineId)).toEqual([]);
    await expectAtRest(scene, machineId);
  });

  test("for a machine whose installation request is fulfilled, until there is a new one", async () => {
    const machineId = await scene.provide();
    await scene.database.query(
      `insert into bmdb.machine_os_installation_request values ('${machineId}', 7, '');
       insert into bmdb.machine_os_installation_report values ('${machineId}', 7, 'Success', '')`,
    );
    await scene.attempt(machineId, neverCalled);
    expect((await scene.status(machineId)).state).toBe("installed");
    await expectAtRest(scene, machineId);
    await scene.database.query("update bmdb.machine_os_installation_request set generation = 8");
    expect((await scene.status(machineId)).state).toBe("pending");
    await scene.database.query("select bmdb.sweep_takeovers()");
    await scene.attempt(machineId, answers());
  });

  test("for a machine that is gone", async () => {
    const machineId = await scene.provide();
    const job = await scene.pick(machineId);
    await scene.database.query("delete from bmdb.machine_provided");
    await scene.database.query("delete from bmdb.machines");
    await scene.run(job, neverCalled);
    expect(await scene.jobs(machineId)).toEqual([]);
    expect(await scene.outcomes()).toEqual({ not_eligible: 1 });
  });

  test.each([
    ["no object", "[]"],
    ["nothing", "null"],
    ["no machineId", "{}"],
    ["a machineId that is no UUID", '{"machineId": "7 or 1=1"}'],
    ["a machineId that is no text", '{"machineId": 7}'],
  ])("for a payload that is %s; the log says so", async (_name, payload) => {
    const [added] = await scene.database.query<Record<string, unknown>>(
      "select * from graphile_worker.add_job('takeover', $1::json)",
      [payload],
    );
    await scene.run(added as unknown as Job, neverCalled);
    const left = await scene.database.query("select from graphile_worker.jobs");
    expect(left).toEqual([]);
    expect(scene.log.join("")).toContain("a takeover job was dropped");
    expect(await scene.outcomes()).toEqual({ not_eligible: 1 });
  });
});

describe("what operators ask", () => {
  test("enqueue_takeover starts a machine in backoff at once", async () => {
    const machineId = await scene.provide();
    await scene.attempt(machineId, failsWith("TAKEOVER_DIAL_REFUSED"));
    const [asked] = await scene.database.query("select bmdb.enqueue_takeover($1) as took", [
      machineId,
    ]);
    expect(asked).toEqual({ took: true });
    expect((await scene.status(machineId)).state).toBe("pending");
    await scene.attempt(machineId, answers());
    await expectAtRest(scene, machineId);
  });

  test("enqueue_takeovers tells how many it took, and leaves held, started and unknown ones alone", async () => {
    const free = await scene.provide();
    const held = await scene.provide();
    const started = await scene.provide();
    await scene.attempt(started, answers());
    await scene.database.query("select bmdb.hold_takeover($1, 'r')", [held]);
    const [took] = await scene.database.query(
      "select bmdb.enqueue_takeovers($1) as count, bmdb.enqueue_takeovers('{}') as none, bmdb.enqueue_takeovers(null) as nothing",
      [[free, free, held, started, "00000000-0000-4000-8000-000000000000"]],
    );
    expect(took).toEqual({ count: 1, none: 0, nothing: 0 });
  });

  test("a job added by hand without key starts a machine in backoff too, and leaves no job", async () => {
    const machineId = await scene.provide();
    await scene.attempt(machineId, failsWith("TAKEOVER_DIAL_REFUSED"));
    await scene.database.query(
      "select graphile_worker.add_job('takeover', json_build_object('machineId', $1::text))",
      [machineId],
    );
    await scene.attempt(machineId, answers());
    expect(await scene.agentKey(machineId)).toBeDefined();
    expect(await scene.database.query("select from graphile_worker.jobs")).toEqual([]);
  });

  test("on a held machine enqueue_takeover and a raw job both do nothing, and the raw job ends", async () => {
    const machineId = await scene.provide();
    await scene.attempt(machineId, failsWith("TAKEOVER_DIAL_REFUSED"));
    const [held] = await scene.database.query("select bmdb.hold_takeover($1, 'r') as done", [
      machineId,
    ]);
    expect(held).toEqual({ done: true });
    const before = await scene.jobs(machineId);
    const [asked] = await scene.database.query("select bmdb.enqueue_takeover($1) as took", [
      machineId,
    ]);
    expect(asked).toEqual({ took: false });
    await scene.database.query(
      "select graphile_worker.add_job('takeover', json_build_object('machineId', $1::text))",
      [machineId],
    );
    await scene.attempt(machineId, neverCalled);
    expect(await scene.jobs(machineId)).toMatchObject(before.map(({ id }) => ({ id })));
  });

  test("release_takeover lifts a hold and brings the machine back at its backoff's end", async () => {
    const machineId = await scene.provide();
    await scene.database.query("select bmdb.hold_takeover($1, 'r')", [machineId]);
    await scene.attempt(machineId, neverCalled);
    const release = async () =>
      (await scene.database.query("select bmdb.release_takeover($1) as lifted", [machineId]))[0];
    expect(await release()).toEqual({ lifted: true });
    expect(await release()).toEqual({ lifted: false });
    await expectAtRest(scene, machineId);
    await scene.attempt(machineId, answers());
  });
});

/** Rejects with the signal's reason, once it is aborted. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason));
  });
}
