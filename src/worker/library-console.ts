import { describe } from "../errors.js";
import type { LimitedLogger } from "../telemetry/limited-logger.js";

const METHODS = ["error", "warn", "trace"] as const;

/**
 * Sends what is written to the console into the log, bounded, until the function that it gives is called.
 * graphile-worker 0.17.3 writes a trace of 20 lines there, past its logger and outside of JSON, for each slot
 * that ends with an error: a hundred lines a minute with a server that has become a standby.
 */
export function captureConsole(log: LimitedLogger): () => void {
  const restore = METHODS.map((method) => {
    const own = console[method];
    console[method] = (...said: unknown[]) => {
      log.log("warn", "console", { component: "graphile-worker" }, said.map(describe).join(" "));
    };
    return () => {
      console[method] = own;
    };
  });
  return () => {
    for (const act of restore) {
      act();
    }
  };
}
