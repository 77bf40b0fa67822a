import pg from "pg";
import { sqlState } from "./database-error.js";
import { IDLE_IN_TRANSACTION_MS, LOCK_MS, STATEMENT_MS } from "./limits.js";

/**
 * Two pools, so that attempts which hold a connection for minutes cannot starve the queue: one connection per
 * attempt, and a small one for graphile-worker, heartbeats, history, the sweep and the rescue of keys.
 */
export interface Pools {
  readonly transactions: pg.Pool;
  readonly queue: pg.Pool;
  end(): Promise<void>;
}

/** 4 to 10 do for the queue's pool at any concurrency (measured with 50 jobs at once: no difference). */
const QUEUE_CONNECTIONS = 6;
const CONNECT_TIMEOUT_MS = 10_000;
/**
 * A query that got no answer for so long will get none: the network is cut without a FIN. Above every
 * statement_timeout and lock_timeout set here, so that a server which lives answers first.
 */
const QUERY_TIMEOUT_MS = 12_000;

/** How many connections one worker of this concurrency opens at most. */
export function connectionsNeeded(concurrency: number): number {
  return concurrency + QUEUE_CONNECTIONS;
}

/** `onError` is told of idle connections that were lost; the pools replace them by themselves. */
export function createPools(options: {
  readonly databaseUrl: string;
  readonly concurrency: number;
  readonly onError: (error: Error) => void;
}): Pools {
  const common: pg.PoolConfig = {
    connectionString: options.databaseUrl,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    query_timeout: QUERY_TIMEOUT_MS,
    // The server's defaults may be hostile: they must not decide how long our statements live, nor what
    // they see. Given with the connection, these go before a database's and a role's.
    statement_timeout: STATEMENT_MS,
    lock_timeout: LOCK_MS,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
    options: "-c default_transaction_isolation=read\\ committed -c idle_session_timeout=0",
  };
  const transactions = new pg.Pool({
    ...common,
    application_name: "takeover attempt",
    max: options.concurrency,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  // No connectionTimeoutMillis: that error has no code, and graphile-worker 0.17.3 does not retry it.
  const queue = new pg.Pool({
    ...common,
    application_name: "takeover queue",
    max: QUEUE_CONNECTIONS,
    Client: ClientInTime,
  });
  for (const pool of [transactions, queue]) {
    pool.on("error", options.onError);
    pool.on("connect", (client) => {
      // A client that dies while it is checked out emits on itself; nobody listening would end the process.
      client.on("error", () => undefined);
      endWhenUseless(client);
    });
  }
  return {
    transactions,
    queue,
    end: async () => {
      await Promise.all([transactions.end(), queue.end()]);
    },
  };
}

/**
 * Gives up on a server, or something before it, that takes the connection and then says nothing; with a code
 * that graphile-worker retries.
 */
class ClientInTime extends pg.Client {
  constructor(config?: pg.ClientConfig) {
    super({ ...config, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  }

  override connect(): Promise<this>;
  override connect(callback: (error: Error | null) => void): void;
  override connect(callback?: (error: Error | null) => void): Promise<this> | undefined {
    if (callback === undefined) {
      return super.connect() as Promise<this>;
    }
    super.connect((error: Error | null) => {
      callback(error?.message === "timeout expired" ? tooLate(error) : error);
    });
    return undefined;
  }
}

function tooLate(cause: Error): Error {
  return Object.assign(
    new Error(`the server took no connection within ${CONNECT_TIMEOUT_MS / 1000} s`, { cause }),
    { code: "ETIMEDOUT" },
  );
}

/**
 * Ends a connection that will never be of use again, for graphile-worker hands every client back as sound:
 * one whose query got no answer in time (pg gives up on the answer but keeps the query at the connection's
 * head, so that every later one times out too), and one to a server that has become read-only, as after a
 * failover, for a session keeps that even when the server has it no more.
 */
function endWhenUseless(client: pg.PoolClient): void {
  const query = client.query.bind(client) as (...args: unknown[]) => unknown;
  const watched = (...args: unknown[]) => {
    const result = query(...args);
    if (result instanceof Promise) {
      result.catch((error: unknown) => {
        if (isUnanswered(error) || sqlState(error) === READ_ONLY) {
          // With a query under way this destroys the socket; the pool then lets go of the client.
          void (client as unknown as pg.Client).end();
        }
      });
    }
    return result;
  };
  client.query = watched as typeof client.query;
}

/** SQLSTATE read_only_sql_transaction. */
const READ_ONLY = "25006";

function isUnanswered(error: unknown): boolean {
  return error instanceof Error && error.message === "Query read timeout";
}
