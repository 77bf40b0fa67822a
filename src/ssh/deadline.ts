/** A bound on one wait: how long, who may end it early, and what to say when time is up. */
export interface Limit {
  readonly ms: number;
  readonly signal: AbortSignal;
  /** The error of a wait that took too long; it names the deadline. */
  late(): Error;
}

/**
 * Settles as `work` does, but no later than the limit allows: rejects with `limit.late()` when time is up
 * and with the signal's reason when it aborts. `work` goes on unheard, so whoever started it ends it.
 */
export function within<T>(limit: Limit, work: Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const done = (): void => {
      clearTimeout(timer);
      limit.signal.removeEventListener("abort", onAbort);
    };
    const onAbort = (): void => {
      done();
      reject(limit.signal.reason);
    };
    const timer = setTimeout(() => {
      done();
      reject(limit.late());
    }, limit.ms);
    limit.signal.addEventListener("abort", onAbort, { once: true });
    work.then(
      (value) => {
        done();
        resolve(value);
      },
      (error: unknown) => {
        done();
        reject(error);
      },
    );
    if (limit.signal.aborted) {
      onAbort();
    }
  });
}

/** Resolves when `work` settles either way, or after `ms` at the latest: for tidying up, where failing is no news. */
export function settledWithin(ms: number, work: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    const done = (): void => {
      clearTimeout(timer);
      resolve();
    };
    work.then(done, done);
  });
}

/** Milliseconds as the flags take them: `250ms`, `15s`. */
export function asDuration(ms: number): string {
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}
