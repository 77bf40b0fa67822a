/** What bounds our statements, whatever the server's defaults are. Milliseconds. */

/** Above the ping of an attempt's transaction (5 s), so that only a frozen or cut-off worker reaches it. */
export const IDLE_IN_TRANSACTION_MS = 30_000;
export const STATEMENT_MS = 10_000;
export const LOCK_MS = 8_000;
