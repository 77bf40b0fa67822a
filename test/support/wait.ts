import { setTimeout as delay } from "node:timers/promises";

const FIRST_PAUSE_MS = 10;
/** Many tests wait at once, and what they ask costs time that what they wait for needs. */
const LONGEST_PAUSE_MS = 150;

/**
 * Polls until `condition` gives something true, and gives it; fails naming `what` at the deadline: a generous one,
 * for the machine may be busy with other tests, or other people's.
 */
export async function waitFor<T>(
  what: string,
  condition: () => T | Promise<T>,
  deadlineMs = 20_000,
): Promise<NonNullable<T>> {
  const deadline = Date.now() + deadlineMs;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(LONGEST_PAUSE_MS, pause * 1.5)) {
    const result = await condition();
    if (result) {
      return result;
    }
    if (Date.now() > deadline) {
      throw new Error(`not within ${deadlineMs / 1000} s: ${what}`);
    }
    await delay(pause);
  }
}

/** Fails naming `what` where `promise` is not settled in time. */
export async function within<T>(what: string, deadlineMs: number, promise: Promise<T>): Promise<T> {
  const timer = new AbortController();
  try {
    return await Promise.race([
      promise,
      delay(deadlineMs, undefined, { signal: timer.signal }).then(() => {
        throw new Error(`not within ${deadlineMs / 1000} s: ${what}`);
      }),
    ]);
  } finally {
    timer.abort();
  }
}
