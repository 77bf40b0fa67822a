import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";

/** A program that ends when its owner ends, however that happens. */
export interface KeptProcess {
  /** Its exit code, once it ended; null where a signal ended its keeper. */
  readonly ended: Promise<number | null>;
  /** Asks it to end, and waits until it and its keeper have. */
  stop(): Promise<void>;
  /** Ends it at once. */
  kill(): void;
}

/**
 * Runs a program for as long as somebody holds the other end of its standard input; then asks it to end, and
 * after a grace ends it. Programs that know no such channel need no flag for it this way. `$1` the log, `$2`
 * the grace in seconds, then the command.
 *
 * Its own helpers are in its process group, which is a group of its own, and go with it. A background job of
 * a shell has /dev/null for input, hence descriptor 3.
 */
const KEEPER = `
log=$1; grace=$2; shift 2
exec 3<&0
"$@" >>"$log" 2>&1 </dev/null 3<&- &
kept=$!
{ cat <&3 >/dev/null; kill -TERM $kept; sleep $grace; kill -KILL $kept; } 2>/dev/null &
exec 3<&-
wait $kept; code=$?
trap '' TERM
kill -TERM 0
exit $code
`;

/** On top of the grace, in milliseconds. */
const KEEPER_ENDS_MS = 5_000;

export function keepProcess(
  command: readonly string[],
  options: {
    /** Where its output goes. */
    readonly log: string;
    readonly environment: Readonly<Record<string, string>>;
    readonly graceSeconds: number;
  },
): KeptProcess {
  const { log, environment, graceSeconds } = options;
  const keeper = spawn(
    "/bin/sh",
    ["-c", KEEPER, "keeper", log, String(graceSeconds), ...command],
    // In a session of its own: Ctrl-C on a terminal is the owner's, who ends things in their order.
    { detached: true, stdio: ["pipe", "ignore", "ignore"], env: environment },
  );
  const channel = keeper.stdin;
  channel.on("error", () => {}); // The keeper ended first.
  const ended = new Promise<number | null>((resolve) => {
    keeper.once("error", () => resolve(null));
    keeper.once("exit", (code) => resolve(code));
  });
  const kill = () => killGroup(keeper);
  return {
    ended,
    kill,
    async stop() {
      channel.end();
      await endedWithin(graceSeconds * 1000 + KEEPER_ENDS_MS, ended).catch(kill);
      await ended;
    },
  };
}

function killGroup({ pid, exitCode, signalCode }: ChildProcess): void {
  if (pid === undefined || exitCode !== null || signalCode !== null) {
    return;
  }
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // Ended meanwhile.
  }
}

/** Rejects where `ended` takes longer. */
export async function endedWithin(ms: number, ended: Promise<unknown>): Promise<void> {
  const timer = new AbortController();
  try {
    await Promise.race([
      ended,
      delay(ms, undefined, { signal: timer.signal }).then(() => {
        throw new Error(`a process did not end within ${ms / 1000} s`);
      }),
    ]);
  } finally {
    timer.abort();
  }
}

/** Resolves with the process' exit code. */
export async function exitOf(child: ChildProcess): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) {
    await once(child, "exit");
  }
  return child.exitCode;
}
