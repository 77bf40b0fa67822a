import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { pruneHistory } from "../../src/bmdb/history.js";
import { takeTurn } from "../../src/bmdb/upkeep-turn.js";
import { useStage } from "../support/scene.js";

const stage = useStage();
/** The queue's pool of a worker: what a worker may, under its own role. */
const queue = () => stage().pools.queue;

test("of many workers that would sweep, one does in each period", async () => {
  const turns = () =>
    Promise.all(Array.from({ length: 10 }, () => takeTurn(queue(), "sweep", 60_000)));
  expect((await turns()).filter(Boolean)).toHaveLength(1);
  expect((await turns()).filter(Boolean)).toHaveLength(0);
  await stage().database.query("update bmdb.upkeep_turn set begun_at = begun_at - interval '61 s'");
  expect((await turns()).filter(Boolean)).toHaveLength(1);
  expect(await takeTurn(queue(), "something else", 60_000)).toBe(true);
});

test("a turn from the time to come, as after the clock was set back, holds nobody up", async () => {
  await takeTurn(queue(), "sweep", 60_000);
  await stage().database.query(
    "update bmdb.upkeep_turn set begun_at = begun_at + interval '1 day'",
  );
  expect(await takeTurn(queue(), "sweep", 60_000)).toBe(true);
});

test("the history is pruned beyond its retention, oldest first, so many rows at a time", async () => {
  await stage().database.query(
    `insert into bmdb.work_history (machine_id, process, event, at)
     select $1, 'takeover', 'Started', clock_timestamp() - n * interval '1 day'
     from generate_series(0, 9) as n`,
    [randomUUID()],
  );
  const fourDays = 4.5 * 24 * 3600 * 1000;
  expect(await pruneHistory(queue(), fourDays, 3)).toBe(3);
  expect(await oldest()).toBe(6);
  expect(await pruneHistory(queue(), fourDays, 3)).toBe(2);
  expect(await oldest()).toBe(4);
});

const oldest = async () =>
  (
    await stage().database.query<{ days: number }>(
      "select max(extract(day from clock_timestamp() - at))::integer as days from bmdb.work_history",
    )
  )[0]?.days;
