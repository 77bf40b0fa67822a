import type pg from "pg";
import { pruneHistory } from "../bmdb/history.js";
import { HEARTBEAT_SECONDS, keepSession, reapSessions, type Session } from "../bmdb/session.js";
import { SWEEP_BATCH, sweepTakeovers } from "../bmdb/sweep.js";
import { takeTurn } from "../bmdb/upkeep-turn.js";
import { describe } from "../errors.js";
import type { LimitedLogger } from "../telemetry/limited-logger.js";
import type { Metrics } from "../telemetry/metrics.js";
import type { WorkerHealth } from "./health.js";

/** What every worker does beside its jobs, any of them for all. Nothing here may end a worker. */
export interface Upkeep {
  stop(): void;
}

const SWEEP_EVERY_MS = 60_000;
/** Below the period, for timers and the database are never exact: else every second turn would be missed. */
const SWEEP_TURN_MS = SWEEP_EVERY_MS - 5_000;
/** Enough for a million machines a minute; what is left is the next minute's. */
const MOST_BATCHES = 2_000;
const PRUNE_BATCH = 1_000;

/**
 * Keeps the session alive and reaps others' every 4 s; sweeps, and prunes the history, every minute unless
 * another worker has done so meanwhile.
 */
export function startUpkeep(options: {
  readonly queue: pg.Pool;
  readonly session: () => Session;
  readonly historyRetentionMs: number;
  readonly health: WorkerHealth;
  readonly metrics: Metrics;
  readonly log: LimitedLogger;
}): Upkeep {
  const { queue, health, metrics, log } = options;
  const stopped = new AbortController();

  const heartbeat = async () => {
    const session = options.session();
    const registered = await keepSession(queue, session).catch((error: unknown) => {
      health.sessionNotKept(`the session cannot be kept: ${describe(error)}`);
      throw error;
    });
    health.sessionKept();
    if (registered) {
      log.log(
        "warn",
        "lapsed",
        { component: "session", sessionId: session.sessionId },
        "the session had lapsed and is registered again; attempts go on",
      );
    }
    const freed = await reapSessions(queue);
    if (freed > 0) {
      metrics.jobsReaped(freed);
      log.log(
        "warn",
        "reaped",
        { component: "session", count: freed },
        "freed jobs of dead workers",
      );
    }
  };
  const sweep = async () => {
    let put = 0;
    for (let batch = 0; batch < MOST_BATCHES && !stopped.signal.aborted; batch++) {
      const count = await sweepTakeovers(queue);
      put += count;
      if (count < SWEEP_BATCH) {
        break;
      }
    }
    if (put > 0) {
      log.log("info", "sweep", { component: "sweep", count: put }, "put machines that were missed");
    }
  };
  const prune = async () => {
    while (!stopped.signal.aborted) {
      if ((await pruneHistory(queue, options.historyRetentionMs, PRUNE_BATCH)) < PRUNE_BATCH) {
        break;
      }
    }
  };

  const timers = [
    every(HEARTBEAT_SECONDS * 1000, "heartbeat", heartbeat),
    every(SWEEP_EVERY_MS, "sweep", async () => {
      if (await takeTurn(queue, "sweep", SWEEP_TURN_MS)) {
        await sweep();
        await prune();
      }
    }),
  ];

  /** Never two runs at once: a slow database gets less to do, not more. */
  function every(periodMs: number, name: string, act: () => Promise<void>): NodeJS.Timeout {
    let busy = false;
    return setInterval(() => {
      if (busy) {
        return;
      }
      busy = true;
      act()
        .catch((error: unknown) => {
          if (!stopped.signal.aborted) {
            log.log(
              "warn",
              name,
              { component: name, err: error },
              `the ${name} failed; it is repeated`,
            );
          }
        })
        .finally(() => {
          busy = false;
        });
    }, periodMs);
  }

  return {
    stop() {
      stopped.abort();
      for (const timer of timers) {
        clearInterval(timer);
      }
    },
  };
}
