import { randomBytes, randomUUID } from "node:crypto";
import os from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { takeoverTask } from "../../tasks/takeover.js";
import { Interrupted, type TakeoverWorker } from "../../tasks/takeover-worker.js";
import { connectionsNeeded, createPools, type Pools } from "../bmdb/pools.js";
import { checkDatabase } from "../bmdb/preflight.js";
import { endSession, keepSession, lapseSession, type Session } from "../bmdb/session.js";
import { programVersion } from "../config/version.js";
import type { Providers } from "../providers/provider.js";
import { takeOver } from "../takeover/pipeline.js";
import { startHttpServer } from "../telemetry/http.js";
import { createLimitedLogger, type LimitedLogger } from "../telemetry/limited-logger.js";
import type { Logger } from "../telemetry/logger.js";
import type { Metrics } from "../telemetry/metrics.js";
import type { WorkerConfiguration } from "./configuration.js";
import { createHealth, type WorkerHealth } from "./health.js";
import { captureConsole } from "./library-console.js";
import { knownMigrations, QUEUE_SCHEMA_LEVEL } from "./migrations.js";
import { type QueueRunner, startQueueRunner } from "./queue-runner.js";
import { startUpkeep } from "./upkeep.js";

export interface WorkerContext {
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly providers: Providers;
  /** Aborted when the worker is to stop: it takes no more jobs, and lets attempts run on for the grace. */
  readonly stop: AbortSignal;
  /** Aborted when it is to stop without that grace. */
  readonly stopNow: AbortSignal;
}

const LOG_EVERY_MS = 30_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;
/** How long interrupted attempts, and each step of closing, may take at the end. */
const CLOSE_MS = 5_000;
/** Nothing is under way on them any more; a half-dead one would only be waited for. */
const CONNECTIONS_CLOSE_MS = 1_000;

/**
 * Runs takeovers until `stop`. Resolves once everything is closed: no attempt runs, their jobs are free.
 *
 * @throws ConfigurationFaults where the HTTP port cannot be had, before any connection to Postgres
 * @throws DatabaseUnusable where the database cannot serve at the start; later troubles are waited out
 */
export async function runWorker(
  configuration: WorkerConfiguration,
  context: WorkerContext,
): Promise<void> {
  const { logger, metrics } = context;
  const health = createHealth(configuration.concurrency);
  const http =
    configuration.http === null
      ? undefined
      : await startHttpServer({
          ...configuration.http,
          live: health.live,
          ready: health.ready,
          metrics,
        });
  const log = createLimitedLogger(logger, LOG_EVERY_MS);
  const releaseConsole = captureConsole(log);
  const pools = createPools({
    databaseUrl: configuration.databaseUrl,
    concurrency: configuration.concurrency,
    onError: (error) =>
      log.log("warn", "pool", { err: error }, "an idle database connection was lost"),
  });
  try {
    await checkDatabase(pools.transactions, {
      migrations: await knownMigrations(),
      queueLevel: QUEUE_SCHEMA_LEVEL,
      connections: connectionsNeeded(configuration.concurrency),
    });
    await takeJobs(configuration, context, { health, log, pools });
  } finally {
    await bounded(pools.end(), "closing the database connections", log, CONNECTIONS_CLOSE_MS);
    await http?.close();
    releaseConsole();
    log.close();
  }
}

interface Parts {
  readonly health: WorkerHealth;
  readonly log: LimitedLogger;
  readonly pools: Pools;
}

async function takeJobs(
  configuration: WorkerConfiguration,
  context: WorkerContext,
  { health, log, pools }: Parts,
): Promise<void> {
  const { logger, metrics, stop } = context;
  let session = newSession();
  let runner: QueueRunner | undefined;
  metrics.setAttemptSlots(configuration.concurrency);
  metrics.onScrape(() => ({
    pools: { transactions: pools.transactions, queue: pools.queue },
    listenConnected: runner?.listenConnected() ?? false,
  }));
  await keepSession(pools.queue, session);
  const upkeep = startUpkeep({
    queue: pools.queue,
    session: () => session,
    historyRetentionMs: configuration.historyRetentionMs,
    health,
    metrics,
    log,
  });
  logger.info(
    {
      sessionId: session.sessionId,
      poolId: session.poolId,
      slots: configuration.concurrency,
      version: programVersion(),
    },
    "taking jobs",
  );

  // The library's runner ends by itself after some database errors; it is then made anew, in a new session
  // that is registered first, with growing pauses while the database is away.
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(LONGEST_PAUSE_MS, pause * 2)) {
    const begun = performance.now();
    const interrupt = new AbortController();
    const worker: TakeoverWorker = {
      pools,
      metrics,
      log: logger,
      limitedLog: log,
      attemptTimeoutMs: configuration.attemptTimeoutMs,
      interrupt: interrupt.signal,
      sessionId: () => session.sessionId,
      takeOver: (machine, hooks, signal) =>
        takeOver(
          machine,
          { ...hooks, settings: configuration.takeover, providers: context.providers },
          signal,
        ),
    };
    runner = startQueueRunner({
      pool: pools.queue,
      tasks: { takeover: takeoverTask(worker) },
      concurrency: configuration.concurrency,
      poolId: session.poolId,
      health,
      log,
    });
    const broken = await Promise.race([runner.broken, aborted(stop)]);
    if (broken === undefined) {
      health.stopping();
      logger.info({ signal: reasonOf(stop) }, "stopping: taking no more jobs");
      upkeep.stop();
      if (await drain(runner, interrupt, configuration.shutdownGraceMs, context, log)) {
        await bounded(endSession(pools.queue, session.sessionId), "ending the session", log);
      }
      logger.info({}, "stopped");
      return;
    }
    log.log("warn", "runner", { err: broken }, "the queue's runner ended; it is made anew");
    health.databaseAway("the queue's runner ended and is made anew");
    interrupt.abort(new Interrupted("the queue's runner was lost"));
    await bounded(runner.stop(), "ending the queue's old runner", log);
    if (performance.now() - begun > LONGEST_PAUSE_MS) {
      pause = FIRST_PAUSE_MS;
    }
    const lost = session;
    session = newSession();
    await registerAnew(pools, session, lost, pause, stop, log);
  }
}

function newSession(): Session {
  return {
    sessionId: randomUUID(),
    componentName: "takeover worker",
    runtimeInfo: `takeover ${programVersion()}, node ${process.version}, ${os.hostname()}, process ${process.pid}`,
    poolId: `takeover-${randomBytes(9).toString("hex")}`,
  };
}

/**
 * Registers a session, once the database takes it, and lets the lost one lapse: what its runner could not
 * write back (open attempts, locked jobs) is then cleaned up as after a dead worker.
 */
async function registerAnew(
  pools: Pools,
  session: Session,
  lost: Session,
  firstPauseMs: number,
  stop: AbortSignal,
  log: LimitedLogger,
): Promise<void> {
  for (let pause = firstPauseMs; !stop.aborted; pause = Math.min(LONGEST_PAUSE_MS, pause * 2)) {
    await Promise.race([delay(pause), aborted(stop)]);
    try {
      await keepSession(pools.queue, session);
      await lapseSession(pools.queue, lost.sessionId);
      return;
    } catch (error) {
      log.log("warn", "session", { err: error }, "the session cannot be registered; trying again");
    }
  }
}

/**
 * Waits for the attempts that run, interrupts those that are left near the end of the grace, and waits for
 * their clean end: no file left on a machine, their jobs free. All of it fits into the grace. False where
 * some would not end; their session is then left to lapse, so that others clean up after it.
 */
async function drain(
  runner: QueueRunner,
  interrupt: AbortController,
  graceMs: number,
  { stopNow }: WorkerContext,
  log: LimitedLogger,
): Promise<boolean> {
  const stopped = runner.stop();
  const cleanUpMs = Math.min(CLOSE_MS, graceMs / 4);
  const timer = new AbortController();
  await Promise.race([
    stopped.catch(() => undefined),
    aborted(stopNow),
    delay(graceMs - cleanUpMs, undefined, { signal: timer.signal }),
  ]);
  timer.abort();
  interrupt.abort(new Interrupted("the worker shuts down"));
  return await bounded(stopped, "ending the attempts that ran", log);
}

/** Resolves, with nothing, once the signal is aborted. */
function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve(undefined);
    }
    signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}

function reasonOf(signal: AbortSignal): string {
  return signal.reason instanceof Error ? signal.reason.message : String(signal.reason);
}

/** Waits for a part of the end, but not for long: what hangs must not keep the rest from being closed. */
async function bounded(
  work: Promise<unknown>,
  what: string,
  log: LimitedLogger,
  ms = CLOSE_MS,
): Promise<boolean> {
  const timer = new AbortController();
  try {
    await Promise.race([
      work,
      delay(ms, undefined, { signal: timer.signal }).then(() => {
        throw new Error(`not done within ${ms / 1000} s`);
      }),
    ]);
    return true;
  } catch (error) {
    log.log("warn", what, { err: error }, `${what} failed`);
    return false;
  } finally {
    timer.abort();
  }
}
