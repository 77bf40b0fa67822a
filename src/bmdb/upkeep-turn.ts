import type pg from "pg";

/**
 * True for one caller of all workers in `everyMs`: the sweep of a million machines reads for 1.2 s, which
 * fifty workers must not each do every minute. A worker that dies in its turn is followed by the next turn.
 */
export async function takeTurn(queue: pg.Pool, duty: string, everyMs: number): Promise<boolean> {
  const { rowCount } = await queue.query(
    `insert into bmdb.upkeep_turn as turn (duty, begun_at)
     values ($1, clock_timestamp())
     on conflict (duty) do update
     set begun_at = excluded.begun_at
     -- The clock is read under the row's lock; a time to come is that of a clock that was set back.
     where turn.begun_at not between clock_timestamp() - $2 * interval '1 millisecond'
       and clock_timestamp()`,
    [duty, everyMs],
  );
  return rowCount === 1;
}
