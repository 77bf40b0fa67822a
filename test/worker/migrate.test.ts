import { afterEach, expect, test } from "vitest";
import { migrate } from "../../src/worker/migrate.js";
import { knownMigrations, QUEUE_SCHEMA_LEVEL } from "../../src/worker/migrations.js";
import { createDatabase, type TestDatabase } from "../support/postgres.js";

let database: TestDatabase;
afterEach(() => database.drop());

test("an empty database gets the queue's schema and ours, and a second run changes nothing", async () => {
  database = await createDatabase({ migrated: false });
  const first = await migrate(database.url);
  expect(first).toEqual({
    queueLevelBefore: 0,
    queueLevel: QUEUE_SCHEMA_LEVEL,
    applied: await knownMigrations(),
  });
  const second = await migrate(database.url);
  expect(second).toEqual({
    queueLevelBefore: QUEUE_SCHEMA_LEVEL,
    queueLevel: QUEUE_SCHEMA_LEVEL,
    applied: [],
  });
});

test("several runs at once take turns, and each migration is applied once", async () => {
  database = await createDatabase({ migrated: false });
  const runs = await Promise.all(Array.from({ length: 4 }, () => migrate(database.url)));
  expect(runs.flatMap((run) => run.applied).sort()).toEqual(await knownMigrations());
});

test("a role without the rights is told which it needs", async () => {
  database = await createDatabase({ migrated: false });
  const url = await database.urlAs("takeover_operator");
  await expect(migrate(url)).rejects.toThrow(/may not migrate: permission denied .*CREATEROLE/);
});

test("a queue schema newer than this program is left alone", async () => {
  database = await createDatabase();
  await database.query("insert into graphile_worker.migrations (id) values (20)");
  await expect(migrate(database.url)).rejects.toThrow(/level 20, newer than this program knows/);
});
