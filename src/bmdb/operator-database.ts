import pg from "pg";
import { DatabaseUnusable } from "../config/exit.js";
import { describe } from "../errors.js";

const CONNECT_TIMEOUT_MS = 10_000;
/** No statement of an operator's command waits for longer. */
const QUERY_TIMEOUT_MS = 30_000;

/** What the functions for operators' commands work on. */
export type OperatorDatabase = pg.Pool;

/** A few connections for a command that puts machines into the database or looks at them. */
export function openDatabase(databaseUrl: string): OperatorDatabase {
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    application_name: "takeover command",
    max: 2,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
  });
  // Idle connections that are lost are replaced; a query on a lost one rejects.
  pool.on("error", () => undefined);
  return pool;
}

/**
 * The server's version, such as `18.4`.
 *
 * @throws DatabaseUnusable where it cannot be reached
 */
export async function serverVersion(database: OperatorDatabase): Promise<string> {
  try {
    const { rows } = await database.query<{ version: string }>(
      "select split_part(current_setting('server_version'), ' ', 1) as version",
    );
    return rows[0]?.version ?? "?";
  } catch (error) {
    throw new DatabaseUnusable(
      `the database cannot be reached: ${describe(error)}; check --database-url, and that Postgres accepts connections`,
      { cause: error },
    );
  }
}

/** Whether it was ever migrated. */
export async function hasSchema(database: OperatorDatabase): Promise<boolean> {
  const { rows } = await database.query<{ there: boolean }>(
    "select to_regclass('bmdb.machines') is not null as there",
  );
  return rows[0]?.there ?? false;
}
