import { EventEmitter } from "node:events";
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
  /** Fetches no more jobs; resolves when those that run have ended and are written back. */
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

/**
 * Starts graphile-worker 0.17.3 the one way that loses no completion: batching on, so that a shutdown waits
 * for completions; no local queue and no named queues; no signal handlers and no migrations of its own.
 */
export function startQueueRunner(options: QueueRunnerOptions): QueueRunner {
  const { health } = options;
  const events: WorkerEvents = new EventEmitter();
  let listenConnected = false;

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
  });
  events.on("job:complete", () => health.jobEnded());
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
      await workerPool.gracefulShutdown("the worker stops");
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
