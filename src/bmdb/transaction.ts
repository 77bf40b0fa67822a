import type pg from "pg";
import {
  CommitUncertain,
  DatabaseTrouble,
  LockLost,
  ofStatement,
  sqlState,
  trouble,
} from "./database-error.js";
import { IDLE_IN_TRANSACTION_MS, LOCK_MS, STATEMENT_MS } from "./limits.js";

/** A transaction, reachable only inside withTransaction's callback. */
export interface Tx {
  /** Rows of one statement. Rejects with DatabaseTrouble, or with the server's own error. */
  query<Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** Resolves if the connection, and so every lock of this transaction, is still there. */
  ping(): Promise<void>;
  /** Aborted with LockLost as soon as the connection is known to be gone. */
  readonly lost: AbortSignal;
}

export interface TransactionLimits {
  /** The server ends the transaction after this time, whatever we do. */
  readonly longestMs: number;
}

const PING_TIMEOUT_MS = 5_000;
/** Postgres has transaction_timeout since 17. */
const TRANSACTION_TIMEOUT_SINCE = 170_000;

/**
 * Runs `work` in one READ COMMITTED transaction on a connection of its own and commits it; rolls back if it
 * throws, and rejects with what it threw.
 *
 * The server's defaults for isolation and timeouts do not count: an attempt may idle for minutes.
 *
 * @throws CommitUncertain where COMMIT was not answered with COMMIT
 * @throws DatabaseTrouble where no connection was to be had, or it could not begin
 */
export async function withTransaction<T>(
  pool: pg.Pool,
  limits: TransactionLimits,
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  const client = await pool.connect().catch((error: unknown) => {
    throw trouble("connecting", error);
  });
  const lost = new AbortController();
  const onLoss = (error: Error) => {
    lost.abort(
      new LockLost(`the database connection was lost: ${error.message}`, { cause: error }),
    );
  };
  client.on("error", onLoss);
  let broken: Error | undefined;
  try {
    const tx = transactionOn(client, lost);
    await begin(client, limits);
    const result = await work(tx);
    await commit(client, lost.signal);
    return result;
  } catch (error) {
    broken = await rollback(client, lost.signal, error);
    throw error;
  } finally {
    client.off("error", onLoss);
    // An argument makes the pool destroy the connection instead of lending it again.
    client.release(broken);
  }
}

function transactionOn(client: pg.PoolClient, lost: AbortController): Tx {
  return {
    lost: lost.signal,
    async query(text, values) {
      lost.signal.throwIfAborted();
      try {
        return (await client.query(text, values as unknown[])).rows;
      } catch (error) {
        throw ofStatement(error);
      }
    },
    async ping() {
      lost.signal.throwIfAborted();
      let timer: NodeJS.Timeout | undefined;
      const tooLate = new Promise<never>((_, reject) => {
        timer = setTimeout(
          () => reject(new Error(`no answer to a ping within ${PING_TIMEOUT_MS / 1000} s`)),
          PING_TIMEOUT_MS,
        );
      });
      try {
        await Promise.race([client.query("select"), tooLate]);
      } catch (error) {
        lost.abort(
          new LockLost(`the machine's lock may be lost: ${String(error)}`, { cause: error }),
        );
        throw lost.signal.reason;
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

/**
 * transaction_timeout counts from the transaction's begin and cannot be raised while it runs, except from 0:
 * hence twice. https://www.postgresql.org/docs/17/runtime-config-client.html#GUC-TRANSACTION-TIMEOUT
 */
async function begin(client: pg.PoolClient, limits: TransactionLimits): Promise<void> {
  try {
    const results = (await client.query(
      `begin isolation level read committed read write;
       set local idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_MS};
       set local statement_timeout = ${STATEMENT_MS};
       set local lock_timeout = ${LOCK_MS};
       select current_setting('transaction_isolation') as isolation,
              current_setting('server_version_num')::integer as version`,
    )) as unknown as pg.QueryResult[];
    const { isolation, version } = results.at(-1)?.rows[0] ?? {};
    // Under a stricter level the claim reads a stale snapshot and a machine with a key is driven again.
    if (isolation !== "read committed") {
      throw new Error(`the transaction's isolation level is ${isolation}, not read committed`);
    }
    if (version >= TRANSACTION_TIMEOUT_SINCE) {
      await client.query(
        `set local transaction_timeout = 0; set local transaction_timeout = ${Math.ceil(limits.longestMs)}`,
      );
    }
  } catch (error) {
    throw trouble("beginning a transaction", error);
  }
}

async function commit(client: pg.PoolClient, lost: AbortSignal): Promise<void> {
  let tag: string;
  try {
    lost.throwIfAborted();
    tag = (await client.query("commit")).command;
  } catch (error) {
    throw new CommitUncertain("the commit got no answer", { cause: error });
  }
  if (tag !== "COMMIT") {
    throw new CommitUncertain(`the commit was answered with ${tag}`);
  }
}

/** Undefined where the connection can be used again, else why not. */
async function rollback(
  client: pg.PoolClient,
  lost: AbortSignal,
  error: unknown,
): Promise<Error | undefined> {
  if (lost.aborted) {
    return lost.reason;
  }
  if (
    error instanceof CommitUncertain ||
    (error instanceof DatabaseTrouble && sqlState(error) === undefined)
  ) {
    return error;
  }
  try {
    await client.query("rollback");
    return undefined;
  } catch (cause) {
    // The first error is what the caller must see; this one only says that the connection is dead.
    return cause instanceof Error ? cause : new Error(String(cause));
  }
}
