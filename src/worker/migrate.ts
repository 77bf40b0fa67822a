import { makeWorkerUtils, Logger as QueueLogger } from "graphile-worker";
import pg from "pg";
import { DatabaseUnusable } from "../config/exit.js";
import { describe } from "../errors.js";
import { MIGRATIONS_FOLDER, QUEUE_SCHEMA_LEVEL } from "./migrations.js";

/** What a run changed: the queue's schema level before and after, and the migrations of ours it applied. */
export interface Migrated {
  readonly queueLevelBefore: number;
  readonly queueLevel: number;
  readonly applied: readonly string[];
}

const CONNECT_TIMEOUT_MS = 10_000;
/** Long enough for another run to finish, short enough that a stuck one is noticed. */
const LOCK_TIMEOUT_MS = 60_000;

/**
 * Brings the database to this program's schema: graphile-worker's migrations first, then ours, all of ours
 * in one transaction. Several runs at once take turns; a run with nothing to do changes nothing.
 *
 * @throws DatabaseUnusable where it cannot connect, wait for its turn, or is not allowed to
 */
export async function migrate(databaseUrl: string): Promise<Migrated> {
  const client = new pg.Client({
    connectionString: databaseUrl,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    // A migration may take its time; that the server has gone is for the system to notice, in some minutes.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    application_name: "takeover migrate",
  });
  // The failing query reports the loss of the connection; without a listener it would end the process.
  client.on("error", () => undefined);
  try {
    await client.connect();
  } catch (error) {
    throw new DatabaseUnusable(
      `the database cannot be reached: ${describe(error)}; check --database-url, and that Postgres accepts connections`,
      { cause: error },
    );
  }
  try {
    await takeTurn(client);
    const queueLevelBefore = await queueLevelOf(client);
    if (queueLevelBefore > QUEUE_SCHEMA_LEVEL) {
      throw new DatabaseUnusable(
        `the schema graphile_worker is at level ${queueLevelBefore}, newer than this program knows (${QUEUE_SCHEMA_LEVEL}): use the release of takeover that fits it`,
      );
    }
    await migrateQueue(databaseUrl);
    // Not before it is needed: at import its loader of TypeScript migrations (we have none) makes itself a
    // cache folder, unless told not to by the environment that src/main.ts sets.
    const { runner } = await import("node-pg-migrate");
    const applied = await runner({
      dbClient: client,
      dir: MIGRATIONS_FOLDER,
      direction: "up",
      migrationsSchema: "bmdb",
      migrationsTable: "migrations",
      createMigrationsSchema: true,
      singleTransaction: true,
      noLock: true,
      verbose: false,
      logger: { info: () => {}, warn: () => {}, error: () => {}, debug: () => {} },
    });
    return {
      queueLevelBefore,
      queueLevel: await queueLevelOf(client),
      applied: applied.map(({ name }) => name),
    };
  } catch (error) {
    throw error instanceof DatabaseUnusable ? error : migrationFailed(error);
  } finally {
    await client.end();
  }
}

/** One lock around both sets of migrations; the session's end releases it. */
async function takeTurn(client: pg.Client): Promise<void> {
  await client.query(`set lock_timeout = ${LOCK_TIMEOUT_MS}`);
  try {
    await client.query("select pg_advisory_lock(hashtextextended('takeover migrate', 0))");
  } catch (error) {
    throw new DatabaseUnusable(
      `another takeover migrate has been running for ${LOCK_TIMEOUT_MS / 1000} s: wait for it, or end it, and run this again`,
      { cause: error },
    );
  }
}

async function queueLevelOf(client: pg.Client): Promise<number> {
  const exists = await client.query("select to_regclass('graphile_worker.migrations') as found");
  if (exists.rows[0].found === null) {
    return 0;
  }
  const level = await client.query(
    "select coalesce(max(id), 0) as level from graphile_worker.migrations",
  );
  return level.rows[0].level;
}

async function migrateQueue(databaseUrl: string): Promise<void> {
  const utils = await makeWorkerUtils({
    connectionString: databaseUrl,
    schema: "graphile_worker",
    maxPoolSize: 1,
    logger: new QueueLogger(() => () => {}),
  });
  try {
    await utils.migrate();
  } finally {
    await utils.release();
  }
}

/** 42501: insufficient_privilege, see Postgres' appendix A. */
function migrationFailed(error: unknown): DatabaseUnusable {
  const denied = error instanceof pg.DatabaseError && error.code === "42501";
  return new DatabaseUnusable(
    denied
      ? `the role in --database-url may not migrate: ${describe(error)}; it needs to own the database (or have CREATE on it) and CREATEROLE, or the roles takeover_operator, takeover_inventory and takeover_worker must be made beforehand`
      : `the migration failed and nothing of it was kept: ${describe(error)}`,
    { cause: error },
  );
}
