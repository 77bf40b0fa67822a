import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterAll, afterEach, beforeAll, inject } from "vitest";
import type { TestProject } from "vitest/node";
import { startEmbeddedPostgres } from "../../src/demo/embedded-postgres.js";
import { migrate } from "../../src/worker/migrate.js";
import { waitFor } from "./wait.js";

declare module "vitest" {
  export interface ProvidedContext {
    /** Superuser's URL of the run's embedded server, with the database's name left out. */
    postgresUrl: string;
  }
}

const TEMPLATE = "takeover_template";

/** vitest's global set-up: one server for the whole run, and a migrated database to clone. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const postgres = await startEmbeddedPostgres({ max_connections: "300" });
  const admin = new pg.Client(postgres.url());
  await admin.connect();
  await admin.query(`create database ${TEMPLATE}`);
  await admin.end();
  await migrate(postgres.url(TEMPLATE));
  project.provide("postgresUrl", postgres.url(""));
  return () => postgres.stop();
}

/** A database of a test's own. */
export interface TestDatabase {
  readonly url: string;
  /** The URL of a role that logs in and is a member of `role`. */
  urlAs(role: string): Promise<string>;
  /** The superuser's pool. */
  readonly pool: pg.Pool;
  query<Row extends pg.QueryResultRow = pg.QueryResultRow>(
    text: string,
    values?: unknown[],
  ): Promise<Row[]>;
  /** Empties every table, as after the migration. */
  reset(): Promise<void>;
  drop(): Promise<void>;
}

/**
 * One database for all tests of a file, emptied after each: some 10 ms instead of the 300 ms that a database
 * of its own costs a test. For tests that leave the schema and the settings as they are.
 */
export function useDatabase(): TestDatabase {
  let current: TestDatabase | undefined;
  const database = () => {
    if (current === undefined) {
      throw new Error("the database is there from the first beforeEach on");
    }
    return current;
  };
  beforeAll(async () => {
    current = await createDatabase();
  });
  afterEach(() => database().reset());
  afterAll(() => database().drop());
  return {
    get url() {
      return database().url;
    },
    get pool() {
      return database().pool;
    },
    urlAs: (role) => database().urlAs(role),
    query: (text, values) => database().query(text, values),
    reset: () => database().reset(),
    drop: async () => {},
  };
}

/** Sessions are not reaped while their server has been up for less than the 12 s that they live. */
export async function untilReapable(database: Pick<TestDatabase, "query">): Promise<void> {
  await waitFor(
    "the server has been up for 12 s",
    async () =>
      (
        await database.query(
          "select where pg_postmaster_start_time() < clock_timestamp() - interval '12 seconds'",
        )
      ).length === 1,
    15_000,
  );
}

/** As role replica neither triggers nor foreign keys are looked at. */
const RESET = `
  set session_replication_role = replica;
  delete from bmdb.machines; delete from bmdb.machine_provided; delete from bmdb.machine_agent_started;
  delete from bmdb.machine_ssh_host_key; delete from bmdb.machine_hold; delete from bmdb.provider_pause;
  delete from bmdb.machine_os_installation_request; delete from bmdb.machine_os_installation_report;
  delete from bmdb.sessions; delete from bmdb.upkeep_turn; delete from bmdb.work_history; delete from bmdb.work_backoff;
  delete from graphile_worker._private_jobs;
  set session_replication_role = origin`;

/**
 * Clones the migrated template (or an empty database): some 50 ms. On a server of the test's own there is no
 * template, and it is migrated. Drop it when done.
 */
export async function createDatabase(
  options: { migrated?: boolean; server?: string | undefined } = {},
): Promise<TestDatabase> {
  const { migrated = true, server = inject("postgresUrl") } = options;
  const template = migrated && options.server === undefined ? TEMPLATE : "template0";
  const name = `test_${randomBytes(6).toString("hex")}`;
  await onServer(server, `create database ${name} template ${template}`);
  const url = server + name;
  if (migrated && template !== TEMPLATE) {
    await migrate(url);
  }
  const pool = new pg.Pool({ connectionString: url, max: 20 });
  pool.on("error", () => undefined);
  const logins: string[] = [];
  return {
    url,
    pool,
    async urlAs(role) {
      const login = `${role}_${randomBytes(6).toString("hex")}`;
      await onServer(server, `create role ${login} login password 'secret' in role ${role}`);
      logins.push(login);
      const asLogin = new URL(url);
      asLogin.username = login;
      asLogin.password = "secret";
      return asLogin.href;
    },
    async query<Row extends pg.QueryResultRow>(text: string, values?: unknown[]) {
      return (await pool.query<Row>(text, values)).rows;
    },
    async reset() {
      await pool.query(RESET);
    },
    async drop() {
      await pool.end();
      await onServer(server, `drop database ${name} with (force)`);
      for (const login of logins) {
        await onServer(server, `drop role ${login}`);
      }
    },
  };
}

/** On a connection that is kept for a while: one more costs 25 ms of the processor's time, and there are hundreds. */
async function onServer(server: string, statement: string): Promise<void> {
  let pool = serverPools.get(server);
  if (pool === undefined) {
    pool = new pg.Pool({
      connectionString: `${server}postgres`,
      max: 2,
      idleTimeoutMillis: 20_000,
      allowExitOnIdle: true,
    });
    pool.on("error", () => undefined);
    serverPools.set(server, pool);
  }
  await pool.query(statement);
}

const serverPools = new Map<string, pg.Pool>();
