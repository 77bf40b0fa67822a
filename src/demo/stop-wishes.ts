import { readFileSync } from "node:fs";

/** The wish that a demo or a fleet end, from wherever it comes. */
export interface StopWishes {
  /** Aborted by the first wish; the reason tells whose. */
  readonly stop: AbortSignal;
  /** Aborted by the second signal: do not wait for anything. */
  readonly stopNow: AbortSignal;
  /** Gives the signals back their usual meaning. */
  release(): void;
}

const SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
const LOOK_EVERY_MS = 250;

/** As much of a process as is listened to. */
type OwnProcess = Pick<NodeJS.Process, "on" | "off" | "stdin" | "ppid" | "env">;

export function catchStopWishes(own: OwnProcess): StopWishes & {
  /** Another reason to stop, from the caller. */
  wish(reason: string): void;
} {
  const stop = new AbortController();
  const stopNow = new AbortController();
  const wish = (reason: string): void => stop.abort(new Error(reason));
  const onSignal = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) {
      stopNow.abort(new Error(`received ${signal} again`));
    }
    wish(`received ${signal}`);
  };
  for (const signal of SIGNALS) {
    own.on(signal, onSignal);
  }
  return {
    stop: stop.signal,
    stopNow: stopNow.signal,
    wish,
    release() {
      for (const signal of SIGNALS) {
        own.off(signal, onSignal);
      }
    },
  };
}

/**
 * Calls back when whoever started this process has gone, as its channel tells: an IPC channel, or standard
 * input where `stdinIsChannel`. A terminal or /dev/null is no channel.
 */
export function whenOwnerGone(own: OwnProcess, stdinIsChannel: boolean, gone: () => void): void {
  own.on("disconnect", gone);
  if (stdinIsChannel) {
    own.stdin.on("error", gone);
    own.stdin.on("end", gone);
    own.stdin.on("close", gone);
    own.stdin.resume();
  }
}

/**
 * Calls back when npm has gone that started this process by `npm run`: it passes no signal on, so its death
 * is all there is to see. Gives what ends the looking.
 */
export function whenNpmGone(own: OwnProcess, gone: () => void): () => void {
  if (own.env.npm_lifecycle_event === undefined) {
    return () => {};
  }
  const ancestry = () => `${own.ppid} ${parentOfShell(own.ppid)}`;
  const begun = ancestry();
  const timer = setInterval(() => {
    if (ancestry() !== begun) {
      gone();
    }
  }, LOOK_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}

/**
 * npm runs a script by a shell. Some shells make way for the one command they are given; Debian's stays, and
 * outlives npm. Null where the process is no shell: then it is npm, whose own parent is nobody's business here.
 */
function parentOfShell(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    const [, name = "", parent = ""] = /^\d+ \((.*)\) \S (\d+)/s.exec(stat) ?? [];
    return /^(ba|da|a|z|k)?sh$/.test(name) ? parent : null;
  } catch {
    return null; // No /proc here, or gone just now, which the parent's id tells.
  }
}
