import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createKeyPair } from "../../src/ssh/keygen.js";
import { takeoverHere } from "../cli/command-line.js";
import { createDatabase, type TestDatabase } from "../support/postgres.js";

// What stops a worker at its start, told in one sentence that names the remedy.

let folder: string;
let database: TestDatabase;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "takeover-start-"));
  await writeFile(path.join(folder, "agent"), "an agent");
  createKeyPair(path.join(folder, "key"), "test");
  database = await createDatabase();
});
afterEach(async () => {
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

const startWorker = (databaseUrl: string, ...flags: string[]) =>
  takeoverHere(
    [
      "worker",
      `--agent-executable-path=${path.join(folder, "agent")}`,
      `--ssh-key-path=${path.join(folder, "key")}`,
      "--agent-endpoint=control.example:8443",
      "--http-port=0",
      "--log-level=silent",
      ...flags,
    ],
    { DATABASE_URL: databaseUrl },
  );

test("an unreachable database: exit 3", async () => {
  const { code, err } = await startWorker("postgres://nobody@127.0.0.1:1/none");
  expect(code).toBe(3);
  expect(err).toEqual([
    expect.stringMatching(/^takeover: the database cannot be used: .*ECONNREFUSED.*--database-url/),
  ]);
});

test("a database without our schema: exit 3, and nothing is migrated silently", async () => {
  const empty = await createDatabase({ migrated: false });
  const { code, err } = await startWorker(empty.url);
  const schemas = await empty.query("select from pg_namespace where nspname = 'bmdb'");
  await empty.drop();
  expect(code).toBe(3);
  expect(err).toEqual(["takeover: the database has no takeover schema: run takeover migrate"]);
  expect(schemas).toEqual([]);
});

test.each([
  [
    "bmdb, older",
    "delete from bmdb.migrations where name = '0004_roles'",
    /bmdb is older than this program \(missing 0004_roles\): run takeover migrate/,
  ],
  [
    "bmdb, newer",
    "insert into bmdb.migrations (name, run_on) values ('9999_later', now())",
    /bmdb is newer than this program \(it has 9999_later\)/,
  ],
  [
    "the queue's, older",
    "delete from graphile_worker.migrations where id = 19",
    /level 18, older than this program's 19: run takeover migrate/,
  ],
  [
    "the queue's, newer",
    "insert into graphile_worker.migrations (id) values (20)",
    /level 20, newer than this program's 19/,
  ],
])("a schema of another version (%s): exit 3", async (_name, statement, message) => {
  await database.query(statement);
  const { code, err } = await startWorker(await database.urlAs("takeover_worker"));
  expect(code).toBe(3);
  expect(err).toEqual([expect.stringMatching(message)]);
});

test("a role without rights: exit 3, with the grant that mends it", async () => {
  const { code, err } = await startWorker(await database.urlAs("takeover_operator"));
  expect(code).toBe(3);
  expect(err).toEqual([
    expect.stringMatching(
      /lacks rights that a worker needs .*grant takeover_worker to "takeover_operator_/,
    ),
  ]);
});

test("a role that the queue's row security shows an empty queue: exit 3", async () => {
  await database.query("drop policy takeover_worker on graphile_worker._private_jobs");
  const { code, err } = await startWorker(await database.urlAs("takeover_worker"));
  expect(code).toBe(3);
  expect(err).toEqual([
    expect.stringMatching(/row-security policy on graphile_worker\._private_jobs/),
  ]);
});

test("more attempts at once than the server has connections: exit 3, naming both remedies", async () => {
  const { code, err } = await startWorker(
    await database.urlAs("takeover_worker"),
    "--concurrency=900",
  );
  expect(code).toBe(3);
  expect(err).toEqual([
    expect.stringMatching(/may open 906 connections.*--concurrency.*max_connections/),
  ]);
});

test("a busy HTTP port: exit 2, before any connection to Postgres", async () => {
  const busy = http.createServer().listen(0, "127.0.0.1");
  await once(busy, "listening");
  const { port } = busy.address() as AddressInfo;
  const { code, err } = await startWorker(
    "postgres://nobody@127.0.0.1:1/none",
    `--http-port=${port}`,
  );
  busy.close();
  expect(code).toBe(2);
  expect(err).toEqual([expect.stringContaining(`--http-port: ${port} on 127.0.0.1 is in use`)]);
});

test("migrate tells what it did, and the second time that there was nothing to do", async () => {
  const empty = await createDatabase({ migrated: false });
  const first = await takeoverHere(["migrate"], { DATABASE_URL: empty.url });
  const second = await takeoverHere(["migrate"], { DATABASE_URL: empty.url });
  await empty.drop();
  expect(first).toMatchObject({ code: 0, err: [] });
  expect(first.out).toMatch(/^graphile_worker: level 0 to 19\nbmdb: applied 0001_tables\n/);
  expect(second).toMatchObject({ code: 0, out: "The database is up to date.\n" });
});
