import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/**
 * An agent leaves its parent and its process group on purpose, so what belongs to a fleet is found by a mark
 * that is in the environment of all it starts and that every descendant inherits. Read from /proc; where
 * there is none, agents are left to end by themselves, as the reference agent does when its key is gone.
 */
export const MARK_VARIABLE = "TAKEOVER_SIMULATED_FLEET";

const ROUNDS = 100;
const PAUSE_MS = 20;

/** Ends all processes with the mark: again and again until none is found, for they may be starting others. */
export async function endMarkedProcesses(mark: string): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    const found = markedProcesses(mark);
    if (found.length === 0) {
      return;
    }
    for (const pid of found) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // Ended by itself meanwhile.
      }
    }
    await delay(PAUSE_MS);
  }
  throw new Error(`processes of the simulated machines do not end: ${markedProcesses(mark)}`);
}

export function markedProcesses(mark: string): number[] {
  return processesWith(MARK_VARIABLE, mark);
}

/** The processes of this user that have the variable in their environment with this value. */
export function processesWith(variable: string, value: string): number[] {
  const entry = `${variable}=${value}`;
  return processIds().filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "latin1").split("\0").includes(entry);
    } catch {
      return false; // Ended meanwhile, or another user's.
    }
  });
}

function processIds(): number[] {
  try {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return []; // No /proc on this system.
  }
}
