/** The pool that holds the attempts' transactions, and the one for all else. */
export const POOLS = ["transactions", "queue"] as const;
export type PoolName = (typeof POOLS)[number];

/** A pool of database connections at one moment; the fields are those of a `pg` pool. */
export interface PoolCounts {
  readonly totalCount: number;
  readonly idleCount: number;
  readonly waitingCount: number;
}

/** What is true at the moment of a scrape, and is asked then instead of being kept up to date. */
export interface Scrape {
  readonly pools?: Partial<Record<PoolName, PoolCounts>>;
  readonly listenConnected?: boolean;
}
