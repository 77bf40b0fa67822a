import type { RetryClass } from "./errors.js";

/** First backoff after a failure, in seconds: the figures of the program this one re-implements. */
const FIRST_SECONDS: Record<RetryClass, number> = {
  provider: 30,
  machine: 60,
  record: 3600,
};

const GROWTH = 1.2;
const LONGEST_SECONDS = 4 * 3600;
const JITTER = 0.1;

/**
 * Seconds until a machine that failed is tried again, before jitter: the class's first figure, then ×1.2
 * per consecutive failure, at most 4 h.
 *
 * @param lastSeconds what this function gave for the failure before, or null after a success or an operator's ask
 */
export function nextBackoffSeconds(retryClass: RetryClass, lastSeconds: number | null): number {
  // Not a number, where somebody wrote that into the row, counts as none: no retry could be timed by it.
  const grown = lastSeconds === null || Number.isNaN(lastSeconds) ? 0 : lastSeconds * GROWTH;
  return Math.min(LONGEST_SECONDS, Math.max(FIRST_SECONDS[retryClass], grown));
}

/** ±10 %, so that machines which failed together do not all come back in the same second. */
export function jittered(seconds: number, random: () => number = Math.random): number {
  return seconds * (1 - JITTER + 2 * JITTER * random());
}

/** Seconds until a machine that another worker holds is looked at again: 10 to 15. */
export function conflictDelaySeconds(random: () => number = Math.random): number {
  return 10 + 5 * random();
}
