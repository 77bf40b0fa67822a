import { setTimeout as delay } from "node:timers/promises";
import { wasFinished } from "../src/bmdb/finish.js";
import type { Attempt } from "../src/bmdb/history.js";
import type { Pools } from "../src/bmdb/pools.js";
import { type Tx, withTransaction } from "../src/bmdb/transaction.js";

/** The key could not be stored within the deadline; the cause is the last try's. */
export class KeyLost extends Error {
  override readonly name = "KeyLost";
}

/**
 * Long enough for a half-dead backend that holds the first insert to reach its idle timeout (30 s), and for
 * a server to restart or fail over.
 */
const DEADLINE_MS = 120_000;
const FIRST_PAUSE_MS = 200;
/** Short: a server that is back may have given the machine to another attempt, whose agent must not run. */
const LONGEST_PAUSE_MS = 1_000;
/** One try; the insert may wait that long for the half-dead backend, and is then made again. */
const TRY_MS = 30_000;

/**
 * Stores an agent key whose commit failed or is unknown: `settle` again on a new connection, without the
 * machine's lock, until it is committed or known to have been.
 *
 * @throws KeyLost after two minutes
 */
export async function rescueKey<T>(
  pools: Pools,
  attempt: Attempt,
  settle: (tx: Tx) => Promise<T>,
): Promise<T | "was_committed"> {
  const deadline = Date.now() + DEADLINE_MS;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(LONGEST_PAUSE_MS, pause * 2)) {
    try {
      return await withTransaction(pools.transactions, { longestMs: TRY_MS }, async (tx) =>
        (await wasFinished(tx, attempt)) ? "was_committed" : settle(tx),
      );
    } catch (error) {
      if (Date.now() + pause > deadline) {
        throw new KeyLost(`the agent key could not be stored within ${DEADLINE_MS / 1000} s`, {
          cause: error,
        });
      }
      await delay(pause);
    }
  }
}
