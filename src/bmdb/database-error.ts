import pg from "pg";
import { describe } from "../errors.js";

/**
 * The database, not the machine, is in trouble: unreachable, restarting, out of connections, read-only, a
 * lock or a statement that took too long. Costs no machine a backoff.
 */
export class DatabaseTrouble extends Error {
  override readonly name: string = "DatabaseTrouble";
}

/** The connection that holds the machine's lock is gone, and the lock with it. */
export class LockLost extends DatabaseTrouble {
  override readonly name = "LockLost";
}

/**
 * COMMIT was answered with ROLLBACK, or not at all: whether it was carried out must be read back.
 */
export class CommitUncertain extends DatabaseTrouble {
  override readonly name = "CommitUncertain";
}

/** SQLSTATE of an error that came from Postgres, or was the cause of trouble; else undefined. See Postgres' appendix A. */
export function sqlState(error: unknown): string | undefined {
  const cause = error instanceof DatabaseTrouble ? error.cause : error;
  return cause instanceof pg.DatabaseError ? cause.code : undefined;
}

/**
 * SQLSTATE classes that say how the server is, and nothing of the statement: connection, transaction state and
 * read-only, serialization and deadlock, resources, locks, operator intervention, system.
 */
const SERVERS_STATE = /^(08|25|40|53|55|57|58)/;

/** A statement's error: as database trouble where the connection is gone or the server is to blame, else as it is. */
export function ofStatement(error: unknown): unknown {
  const state = sqlState(error);
  return state === undefined || SERVERS_STATE.test(state)
    ? trouble("running a statement", error)
    : error;
}

/** `error` as database trouble, with what was being done. */
export function trouble(doing: string, error: unknown): DatabaseTrouble {
  return error instanceof DatabaseTrouble
    ? error
    : new DatabaseTrouble(`database trouble while ${doing}: ${describe(error)}`, { cause: error });
}
