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

/** SQLSTATE of an error that came from Postgres, else undefined; see Postgres' appendix A. */
export function sqlState(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined;
}

/** `error` as database trouble, with what was being done. */
export function trouble(doing: string, error: unknown): DatabaseTrouble {
  return error instanceof DatabaseTrouble
    ? error
    : new DatabaseTrouble(`database trouble while ${doing}: ${describe(error)}`, { cause: error });
}
