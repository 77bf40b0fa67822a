/** The wish of whoever runs this process that it end: politely, then at once. */
export interface StopSignals {
  /** Aborted by the first SIGTERM or SIGINT. */
  readonly stop: AbortSignal;
  /** Aborted by the second. A third ends the process the system's way. */
  readonly stopNow: AbortSignal;
  /** Gives both signals back their usual meaning. */
  release(): void;
}

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

export function catchSignals(): StopSignals {
  const stop = new AbortController();
  const stopNow = new AbortController();
  const release = () => {
    for (const signal of SIGNALS) {
      process.off(signal, onSignal);
    }
  };
  const onSignal = (signal: NodeJS.Signals) => {
    const reason = new Error(`received ${signal}`);
    if (!stop.signal.aborted) {
      stop.abort(reason);
    } else {
      release();
      stopNow.abort(reason);
    }
  };
  for (const signal of SIGNALS) {
    process.on(signal, onSignal);
  }
  return { stop: stop.signal, stopNow: stopNow.signal, release };
}
