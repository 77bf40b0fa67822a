import { expect, test } from "vitest";
import { createHealth } from "../../src/worker/health.js";

function worker(slots = 2) {
  let now = 0;
  const health = createHealth(slots, () => now);
  return { health, pass: (ms: number) => (now += ms) };
}

test("is live but not ready before the first poll", () => {
  const { health } = worker();
  expect(health.live().ok).toBe(true);
  expect(health.ready()).toEqual({ ok: false, why: "starting: the queue was not polled yet" });
});

test("is ready once the queue answered, and says how many slots are in use", () => {
  const { health } = worker();
  health.polled();
  health.jobStarted();
  expect(health.ready()).toEqual({ ok: true, why: "taking jobs, 1 of 2 slots in use" });
});

test("is live but not ready while the database is away, and ready again when it answers", () => {
  const { health, pass } = worker();
  health.polled();
  health.databaseAway("the queue cannot be polled: connection refused");
  pass(10_000);
  expect(health.live()).toEqual({
    ok: true,
    why: "the queue cannot be polled: connection refused",
  });
  expect(health.ready().ok).toBe(false);
  health.polled();
  expect(health.ready().ok).toBe(true);
});

test("is live while heartbeats fail, though the queue keeps its own reasons to itself", () => {
  const { health, pass } = worker();
  health.polled();
  health.databaseAway("the queue's runner ended and is made anew");
  for (let beat = 0; beat < 20; beat++) {
    pass(4_000);
    health.sessionNotKept("the session cannot be kept: read-only");
  }
  const why = "the queue's runner ended and is made anew; the session cannot be kept: read-only";
  expect(health.live()).toEqual({ ok: true, why });
  expect(health.ready()).toEqual({ ok: false, why });
  health.sessionKept();
  health.polled();
  expect(health.ready().ok).toBe(true);
});

test("is not live when only its heartbeats come through for a minute", () => {
  const { health, pass } = worker();
  health.polled();
  for (let beat = 0; beat < 16; beat++) {
    pass(4_000);
    health.sessionKept();
  }
  expect(health.live()).toEqual({ ok: false, why: "the queue was not polled for 64 s" });
});

test("is not live when it has neither polled nor failed to for a minute", () => {
  const { health, pass } = worker();
  health.polled();
  pass(61_000);
  expect(health.live()).toEqual({ ok: false, why: "the queue was not polled for 61 s" });
});

test("is live without polling while every slot runs an attempt", () => {
  const { health, pass } = worker(1);
  health.polled();
  health.jobStarted();
  pass(600_000);
  expect(health.live().ok).toBe(true);
  health.jobEnded();
  expect(health.live().ok).toBe(true);
});

test("is live but not ready from the first signal on", () => {
  const { health } = worker();
  health.polled();
  health.stopping();
  expect(health.live().ok).toBe(true);
  expect(health.ready()).toEqual({ ok: false, why: "stopping" });
});
