import type { Tx } from "./transaction.js";

/**
 * Ends an attempt's job. Done by us, in the attempt's transaction, so that the library's own completion, a
 * delete by id, comes too late to do anything: whatever job follows has a new id.
 */
export async function deleteJob(tx: Tx, jobId: string): Promise<void> {
  await tx.query("select bmdb.delete_takeover_job($1)", [jobId]);
}
