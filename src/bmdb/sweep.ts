import type pg from "pg";

/** Puts up to this many machines per call: the size that sweep_takeovers has in the migrations. */
export const SWEEP_BATCH = 500;

/** One batch of the sweep, in a transaction of its own; gives how many machines were put. */
export async function sweepTakeovers(queue: pg.Pool): Promise<number> {
  const { rows } = await queue.query("select bmdb.sweep_takeovers() as put");
  return rows[0].put;
}
