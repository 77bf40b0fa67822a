import pg from "pg";
import { DatabaseUnusable } from "../config/exit.js";
import { describe } from "../errors.js";
import type { OperatorDatabase } from "./operator-database.js";

/** A role that a worker logs in under. */
export interface WorkerLogin {
  readonly name: string;
  readonly password: string;
}

/**
 * Makes roles that log in and are members of takeover_worker.
 *
 * @throws DatabaseUnusable where the connection's role may not
 */
export async function createWorkerLogins(
  database: OperatorDatabase,
  logins: readonly WorkerLogin[],
): Promise<void> {
  try {
    for (const { name, password } of logins) {
      await database.query(
        `create role ${pg.escapeIdentifier(name)} login password ${pg.escapeLiteral(password)} in role takeover_worker`,
      );
    }
  } catch (error) {
    throw new DatabaseUnusable(
      `no login could be made for the workers: ${describe(error)}; the role in --database-url needs CREATEROLE, and to be an admin of takeover_worker`,
      { cause: error },
    );
  }
}

/** Ends what these roles still have open, and drops those that exist. */
export async function dropWorkerLogins(
  database: OperatorDatabase,
  names: readonly string[],
): Promise<void> {
  await database.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where usename = any ($1::text[])",
    [names],
  );
  for (const name of names) {
    await database.query(`drop role if exists ${pg.escapeIdentifier(name)}`);
  }
}

/** How many connections these roles have. */
export async function connectionsOf(
  database: OperatorDatabase,
  names: readonly string[],
): Promise<number> {
  const { rows } = await database.query<{ count: number }>(
    "select count(*)::integer as count from pg_stat_activity where usename = any ($1::text[])",
    [names],
  );
  return rows[0]?.count ?? 0;
}
