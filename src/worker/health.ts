import type { Health } from "../telemetry/http.js";

/** What a worker knows of itself, for the probes. */
export interface WorkerHealth {
  live(): Health;
  ready(): Health;
  /** The queue was asked for a job, and answered. */
  polled(): void;
  /** The queue was asked and did not answer, or the runner ended. */
  databaseAway(why: string): void;
  sessionKept(): void;
  /** A heartbeat did not come through: the library may keep to itself for minutes why it does not poll. */
  sessionNotKept(why: string): void;
  jobStarted(): void;
  jobEnded(): void;
  stopping(): void;
}

/** Several of the library's polls (2 s each): the loop hangs. */
const SILENT_MS = 60_000;

/**
 * Live: it polled lately, or knows why not. Ready: it would take a job now, or as soon as a slot is free.
 *
 * @param slots how many jobs run at once
 * @param now milliseconds, monotonic
 */
export function createHealth(slots: number, now = () => performance.now()): WorkerHealth {
  let lastPoll: number | undefined;
  let away: string | undefined;
  let unkept: string | undefined;
  let running = 0;
  let stopping = false;
  let heard = now();

  const touch = () => {
    heard = now();
  };
  const trouble = () => [away, unkept].filter((why) => why !== undefined).join("; ") || undefined;
  return {
    polled() {
      touch();
      lastPoll = heard;
      away = undefined;
    },
    databaseAway(why) {
      touch();
      away = why;
    },
    sessionKept() {
      unkept = undefined;
    },
    sessionNotKept(why) {
      touch();
      unkept = why;
    },
    jobStarted() {
      touch();
      running += 1;
    },
    jobEnded() {
      touch();
      running -= 1;
    },
    stopping() {
      stopping = true;
    },
    live() {
      if (stopping) {
        return { ok: true, why: `stopping, ${running} attempts running` };
      }
      if (running >= slots) {
        return { ok: true, why: `all ${slots} slots run attempts` };
      }
      const silentMs = now() - heard;
      if (silentMs > SILENT_MS) {
        return { ok: false, why: `the queue was not polled for ${Math.round(silentMs / 1000)} s` };
      }
      return { ok: true, why: trouble() ?? "polling the queue" };
    },
    ready() {
      if (stopping) {
        return { ok: false, why: "stopping" };
      }
      const why = trouble();
      if (why !== undefined) {
        return { ok: false, why };
      }
      if (lastPoll === undefined) {
        return { ok: false, why: "starting: the queue was not polled yet" };
      }
      return { ok: true, why: `taking jobs, ${running} of ${slots} slots in use` };
    },
  };
}
