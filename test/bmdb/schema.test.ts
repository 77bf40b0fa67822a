import { afterEach, beforeEach, expect, test } from "vitest";
import { createDatabase, type TestDatabase } from "../support/postgres.js";
import { describeSchema } from "../support/schema-snapshot.js";

let database: TestDatabase;
beforeEach(async () => {
  database = await createDatabase();
});
afterEach(() => database.drop());

// A migration is never edited once it landed; what it makes is held here. To accept a change on purpose:
// npx vitest run test/bmdb/schema.test.ts --update
test("the migrations make the schema that is on record", async () => {
  await expect(await describeSchema(database)).toMatchFileSnapshot("schema.snapshot.txt");
});

test("nobody but the documented roles may call a function of ours", async () => {
  const open = await database.query(
    `select p.oid::regprocedure::text as function
     from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) acl
     where p.pronamespace = 'bmdb'::regnamespace and acl.grantee = 0`,
  );
  expect(open).toEqual([]);
});

test("every function that runs with its owner's rights has a fixed search_path", async () => {
  const loose = await database.query(
    `select oid::regprocedure::text as function from pg_proc
     where pronamespace = 'bmdb'::regnamespace and prosecdef
       and not coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false)`,
  );
  expect(loose).toEqual([]);
});
