import { EventEmitter } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import {
  Logger as QueueLogger,
  runTaskList,
  type TaskList,
  type WorkerEvents,
} from "graphile-worker";
import type pg from "pg";
import { describe } from "../errors.js";
import type { LimitedLogger } from "../telemetry/limited-logger.js";
import type { WorkerHealth } from "./health.js";

/** graphile-worker, running our tasks until it is stopped or breaks. */
export interface QueueRunner {
  /** Resolves, with the reason, once the library has given up; the library says so by an event alone. */
  readonly broken: Promise<Error>;
  readonly listenConnected: () => boolean;
  /**
   * Fetches no more jobs; resolves when those that run have ended and are written back, and a second later at
   * the latest, whatever the library has still to close.
   */
  stop(): Promise<void>;
}

export interface QueueRunnerOptions {
  readonly pool: pg.Pool;
  readonly tasks: TaskList;
  readonly concurrency: number;
  /** The name to lock jobs under: the session is registered with it before the first fetch. */
  readonly poolId: string;
  readonly health: WorkerHealth;
  readonly log: LimitedLogger;
}

const POLL_MS = 2_000;
/** Attempts are interrupted by us; the library's own abort must not come first, and 0 is not "never". */
const LIBRARY_ABORT_MS = 2 ** 31 - 1;
/** It says UNLISTEN before it is done: on a connection that is half dead that takes a query's 12 s. */
const LIBRARY_CLOSE_MS = 1_000;

/**
 * Starts graphile-worker 0.17.3 the one way that loses no completion: batching on, so that a shutdown waits
 * for completions; no local queue and no named queues; no signal handlers and no migrations of its own.
 */
export function startQueueRunner(options: QueueRunnerOptions): QueueRunner {
  const { health } = options;
  const events: WorkerEvents = new EventEmitter();
  let listenConnected = false;
  let running = 0;
  let stopping = false;
  let tellIdle = () => {};
  const idle = new Promise<void>((resolve) => {
    tellIdle = () => {
      if (stopping && running === 0) {
        resolve();
      }
    };
  });

  events.on("pool:create", ({ workerPool }) => {
    // There is no option for it; the property is read at each use. Set before the first fetch, so that no
    // job is ever locked under a name that no session has.
    workerPool.id = options.poolId;
  });
  events.on("pool:listen:success", () => {
    listenConnected = true;
  });
  events.on("pool:listen:error", ({ error }) => {
    listenConnected = false;
    options.log.log(
      "warn",
      "listen",
      { component: "queue", err: error },
      "not listening for jobs; polling",
    );
  });
  events.on("pool:listen:release", () => {
    listenConnected = false;
  });
  events.on("worker:getJob:empty", () => health.polled());
  events.on("worker:getJob:error", ({ error }) => {
    health.databaseAway(`the queue cannot be polled: ${describe(error)}`);
    options.log.log(
      "warn",
      "poll",
      { component: "queue", err: error },
      "the queue cannot be polled",
    );
  });
  events.on("job:start", () => {
    health.polled();
    health.jobStarted();
    running += 1;
  });
  events.on("job:complete", () => {
    health.jobEnded();
    running -= 1;
    tellIdle();
  });
  const broken = new Promise<Error>((resolve) => {
    events.on("pool:fatalError", ({ error }) => resolve(asError(error)));
  });

  const workerPool = runTaskList(
    {
      concurrency: options.concurrency,
      noHandleSignals: true,
      events,
      logger: toOurs(options.log),
      preset: {
        worker: {
          schema: "graphile_worker",
          pollInterval: POLL_MS,
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
          gracefulShutdownAbortTimeout: LIBRARY_ABORT_MS,
        },
      },
    },
    options.tasks,
    options.pool,
  );
  // The same reasons arrive by events; a rejection nobody handles would end the process.
  workerPool.promise.catch(() => undefined);

  return {
    broken,
    listenConnected: () => listenConnected,
    async stop() {
      stopping = true;
      tellIdle();
      await Promise.race([
        workerPool.gracefulShutdown("the worker stops"),
        idle.then(() => delay(LIBRARY_CLOSE_MS)),
      ]);
    },
  };
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** The library's lines: per job and chatty, so below info, but for its errors. Texts may hold payloads. */
function toOurs(log: LimitedLogger): QueueLogger {
  return new QueueLogger(() => (level, message) => {
    const text = describe(message);
    if (level === "error") {
      log.log("warn", "library", { component: "graphile-worker" }, text);
    } else {
      log.log("debug", `library ${level}`, { component: "graphile-worker" }, text);
    }
  });
}
