import type { LogFields } from "./log-fields.js";
import type { Logger } from "./logger.js";

type Level = "debug" | "info" | "warn" | "error";

/** Lines that may come in floods, each under a key from the code, never from the outside. */
export interface LimitedLogger {
  log(level: Level, key: string, fields: LogFields, message: string): void;
  /** Tells what is still left out, and stops its timers. */
  close(): void;
}

/**
 * Lets one line per key through every `everyMs`. What came in between is not written; when the time is
 * over its last line is, with the number of the others in `leftOut`. So a database that is away for an
 * hour costs a line per period, and the end of the story is told too.
 */
export function createLimitedLogger(logger: Logger, everyMs: number): LimitedLogger {
  interface Window {
    held: { level: Level; fields: LogFields; message: string } | null;
    leftOut: number;
    timer: NodeJS.Timeout;
  }
  const windows = new Map<string, Window>();

  const open = (key: string) => {
    const timer = setTimeout(() => {
      if (tell(key)) {
        open(key);
      }
    }, everyMs);
    // A line that waits to be written is no reason to live on; `close` writes it.
    timer.unref();
    windows.set(key, { held: null, leftOut: 0, timer });
  };

  /** Ends a window; true if there was something to tell. */
  const tell = (key: string): boolean => {
    const window = windows.get(key);
    windows.delete(key);
    clearTimeout(window?.timer);
    if (!window?.held) {
      return false;
    }
    const { level, fields, message } = window.held;
    logger[level]({ ...fields, leftOut: window.leftOut }, message);
    return true;
  };

  return {
    log(level, key, fields, message) {
      const window = windows.get(key);
      if (window === undefined) {
        logger[level](fields, message);
        open(key);
        return;
      }
      if (window.held !== null) {
        window.leftOut++;
      }
      window.held = { level, fields, message };
    },
    close() {
      for (const key of [...windows.keys()]) {
        tell(key);
      }
    },
  };
}
