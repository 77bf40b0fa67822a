import { EXIT, type ExitCode } from "../config/exit.js";
import type { Flags } from "../config/read-options.js";
import { programVersion } from "../config/version.js";
import { PROVIDERS } from "../providers/known.js";
import { createLogger, type Logger } from "../telemetry/logger.js";
import { createMetrics } from "../telemetry/metrics.js";
import { loadWorkerConfiguration } from "../worker/configuration.js";
import { catchSignals } from "./signals.js";
import type { Terminal } from "./terminal.js";

const STDOUT = 1;

/** A worker from its options to its exit code. Throws what `report` tells. */
export async function runWorkerCommand(flags: Flags, terminal: Terminal): Promise<ExitCode> {
  // First of all, so that a signal during the start is obeyed at its end and not in its middle.
  const signals = catchSignals();
  try {
    const configuration = await loadWorkerConfiguration(flags, terminal.environment);
    const logger = createLogger({
      level: configuration.logLevel,
      destination: STDOUT,
      readable: terminal.outIsTerminal,
    });
    for (const warning of configuration.warnings) {
      logger.warn({}, warning);
    }
    // Not before it is needed: the queue's and the database's packages are half of the start's time, and a
    // faulty configuration is told without them.
    const { runWorker } = await import("../worker/run.js");
    const metrics = createMetrics({ providers: [...PROVIDERS.keys()], version: programVersion() });
    await logged(logger, () =>
      runWorker(configuration, {
        logger,
        metrics,
        providers: PROVIDERS,
        stop: signals.stop,
        stopNow: signals.stopNow,
      }),
    );
    return signals.stopNow.aborted ? EXIT.no : EXIT.done;
  } finally {
    signals.release();
  }
}

/** Whatever ends a worker is in its log too: standard error is often read by nobody. */
async function logged(logger: Logger, act: () => Promise<void>): Promise<void> {
  const onUncaught = (error: unknown) => {
    // Nobody knows what state this process is in. Its jobs are freed by the other workers.
    logger.fatal({ err: error }, "an error that nobody caught ends this worker");
    process.exit(EXIT.no);
  };
  // Node reports a rejection that nobody handles here as well.
  process.on("uncaughtException", onUncaught);
  try {
    await act();
  } catch (error) {
    logger.fatal({ err: error }, "the worker ends");
    throw error;
  } finally {
    process.off("uncaughtException", onUncaught);
  }
}
