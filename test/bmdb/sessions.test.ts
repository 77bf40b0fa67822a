import { randomBytes, randomUUID } from "node:crypto";
import pg from "pg";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { keepSession, reapSessions, type Session } from "../../src/bmdb/session.js";
import { untilReapable } from "../support/postgres.js";
import { createScene, expectAtRest, type Scene, takenOver, useStage } from "../support/scene.js";
import { waitFor } from "../support/wait.js";

const stage = useStage();
let scene: Scene;
beforeAll(() => untilReapable(stage().database));
beforeEach(async () => {
  scene = await createScene({ stage: stage() });
});
afterEach(() => scene.close());

const session = (poolId: string): Session => ({
  sessionId: randomUUID(),
  componentName: "takeover worker",
  runtimeInfo: "a test",
  poolId,
});
const lapse = () =>
  scene.database.query("update bmdb.sessions set deadline = clock_timestamp() - interval '1 s'");
const lockedAgo = (interval: string) =>
  scene.database.query(
    "update graphile_worker._private_jobs set locked_at = now() - $1::interval where locked_at is not null",
    [interval],
  );
const reap = () => reapSessions(scene.pools.queue);

test("a session is registered once, moved on by heartbeats, and there again after it was reaped", async () => {
  const own = session("pool-1");
  expect(await keepSession(scene.pools.queue, own)).toBe(true);
  expect(await keepSession(scene.pools.queue, own)).toBe(false);
  await lapse();
  await reap();
  expect(await scene.database.query("select from bmdb.sessions")).toEqual([]);
  expect(await keepSession(scene.pools.queue, own)).toBe(true);
});

test("the job of a worker whose session lapsed is freed, others are told, its attempt ends as Canceled", async () => {
  const machineId = await scene.provide();
  const dead = session("pool-dead");
  await keepSession(scene.pools.queue, dead);
  const job = await scene.pick(machineId, "pool-dead");
  await scene.database.query(
    "insert into bmdb.work_history (machine_id, process, event, session_id, job_id) values ($1, 'takeover', 'Started', $2, $3)",
    [machineId, dead.sessionId, job.id],
  );
  await lockedAgo("20 s");
  const listener = new pg.Client(scene.database.url);
  await listener.connect();
  const heard: string[] = [];
  listener.on("notification", ({ payload }) => heard.push(payload ?? ""));
  await listener.query('listen "jobs:insert"');
  expect(await reap()).toBe(0);
  expect((await scene.status(machineId)).state).toBe("running");
  await lapse();
  expect((await scene.status(machineId)).state).toBe("pending");
  expect(await reap()).toBe(1);
  await waitFor("the notification", () => heard.length === 1, 2_000);
  await listener.end();
  expect(await scene.history(machineId)).toEqual(["Started", "Canceled"]);
  await expectAtRest(scene, machineId);
});

test("a worker that goes on after it was reaped leaves the job alone that another one runs by now", async () => {
  const machineId = await scene.provide();
  const other = session("pool-other");
  const job = await scene.pick(machineId, "pool-frozen");
  await scene.run(job, async () => {
    await lockedAgo("20 s");
    expect(await reap()).toBe(1);
    await keepSession(scene.pools.queue, other);
    await scene.pick(machineId, "pool-other");
    await scene.database.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'takeover attempt'",
    );
    throw new Error("its connection is lost");
  });
  expect(scene.log.join("")).toContain("put off: ");
  expect((await scene.jobs(machineId)).filter((row) => row.locked)).toHaveLength(1);
  expect(await scene.database.query("select session_id from bmdb.work")).toEqual([
    { session_id: other.sessionId },
  ]);
});

test("a job locked just now, under a name that is not registered yet, is left alone", async () => {
  const machineId = await scene.provide();
  await scene.pick(machineId, "pool-new");
  expect(await reap()).toBe(0);
  await lockedAgo("6 s");
  expect(await reap()).toBe(1);
});

test("a job that was locked by hand under no name is freed", async () => {
  const machineId = await scene.provide();
  await scene.database.query(
    "update graphile_worker._private_jobs set locked_at = now() - interval '1 min'",
  );
  expect(await reap()).toBe(1);
  await expectAtRest(scene, machineId);
});

test("a queue named by hand is given free once the attempt that ran in it has ended, and not before", async () => {
  await scene.database.query(
    `select graphile_worker.add_job('takeover', '{}', queue_name => 'by hand');
     update graphile_worker._private_job_queues set locked_at = now() - interval '1 min', locked_by = 'p';
     select graphile_worker.add_job('takeover', '{}', queue_name => 'by hand');
     update graphile_worker._private_jobs set locked_at = now(), locked_by = 'p'
     where id = (select min(id) from graphile_worker._private_jobs)`,
  );
  const locked = () =>
    scene.database.query(
      "select locked_by from graphile_worker._private_job_queues where locked_at is not null",
    );
  await reap();
  expect(await locked()).toEqual([{ locked_by: "p" }]);
  await scene.database.query("delete from graphile_worker._private_jobs where locked_by = 'p'");
  await reap();
  expect(await locked()).toEqual([]);
});

test("jobs of other tasks are not freed", async () => {
  await scene.database.query("select graphile_worker.add_job('another', '{}')");
  await scene.database.query(
    "update graphile_worker._private_jobs set locked_at = now() - interval '1 h', locked_by = 'pool-theirs'",
  );
  expect(await reap()).toBe(0);
});

test("one reaps while another does: that one does nothing", async () => {
  const other = await scene.database.pool.connect();
  await other.query("begin; select bmdb.reap_sessions()");
  await scene.provide().then((machineId) => scene.pick(machineId, "pool-dead"));
  await lockedAgo("1 min");
  expect(await reap()).toBe(0);
  await other.query("rollback");
  other.release();
  expect(await reap()).toBe(1);
});

test("an attempt whose session was wrongly reaped still commits, and its history says both", async () => {
  const machineId = await scene.provide();
  const wronged = { ...session("pool-test"), sessionId: scene.sessionId };
  await keepSession(scene.pools.queue, wronged);
  await scene.attempt(machineId, async () => {
    await lockedAgo("20 s");
    await lapse();
    expect(await reap()).toBe(1);
    return takenOver(randomBytes(32));
  });
  expect(await scene.history(machineId)).toEqual(["Started", "Canceled", "Finished"]);
  expect(await scene.jobs(machineId)).toEqual([]);
});

test("an attempt that could not record its end gets one when the machine's next attempt starts", async () => {
  const machineId = await scene.provide();
  await scene.database.query(
    "insert into bmdb.work_history (machine_id, process, event, session_id, job_id) values ($1, 'takeover', 'Started', $2, 1)",
    [machineId, randomUUID()],
  );
  await scene.attempt(machineId, async () => takenOver(randomBytes(32)));
  expect(await scene.history(machineId)).toEqual(["Started", "Canceled", "Started", "Finished"]);
  await expectAtRest(scene, machineId);
});
