import { type Attempt, recordEnd } from "./history.js";
import type { Tx } from "./transaction.js";

/** What an attempt brings home. */
export interface Harvest {
  /** 32 bytes. */
  readonly agentKey: Uint8Array;
  /** `<type> <base64>`; null where the policy is not to look. */
  readonly hostKey: string | null;
  readonly warnings: readonly string[];
  /** As the claim read them: the key belongs to this hardware and no other. */
  readonly provider: string;
  readonly providerId: string;
}

export type Finish =
  /** `inserted` is false where an earlier, uncertain commit had stored it. */
  | { readonly result: "started"; readonly inserted: boolean }
  /** The machine has another key on record by now: a rescue's, or one set by hand. */
  | { readonly result: "already_started" }
  /** Another machine has this very key. Nothing was written: the attempt failed. */
  | { readonly result: "key_taken"; readonly byMachineId: string }
  /** Meanwhile the row names other hardware, or none. Nothing was stored. */
  | { readonly result: "provided_anew" };

/**
 * Stores the agent key and ends the job. Waits for nobody, save for another insert of the same key or
 * machine just under way: the agent may be replacing the machine's system already, so its key exists
 * nowhere but here. Hence it also serves, on a new connection and without the machine's lock, to rescue the
 * key after a commit that failed or whose outcome is unknown: a key that was committed is found and kept.
 */
export async function finish(tx: Tx, attempt: Attempt, harvest: Harvest): Promise<Finish> {
  if (!(await stillProvidedAs(tx, attempt.machineId, harvest))) {
    return { result: "provided_anew" };
  }
  // First of all writes, so that no trigger fired by a later one finds the machine eligible.
  const inserted = await tx.query(
    `insert into bmdb.machine_agent_started (machine_id, agent_started_at, agent_public_key)
     values ($1, clock_timestamp(), $2)
     on conflict do nothing
     returning machine_id`,
    [attempt.machineId, harvest.agentKey],
  );
  const onRecord =
    inserted.length === 1 ? "ours" : await whatIsOnRecord(tx, attempt.machineId, harvest);
  if (typeof onRecord === "object") {
    return { result: "key_taken", byMachineId: onRecord.byMachineId };
  }
  if (onRecord === "ours" && harvest.hostKey !== null) {
    await tx.query(
      `insert into bmdb.machine_ssh_host_key (machine_id, host_key)
       values ($1, $2)
       on conflict do nothing`,
      [attempt.machineId, harvest.hostKey],
    );
  }
  await deleteBackoff(tx, attempt.machineId);
  await tx.query("select bmdb.delete_takeover_jobs($1, $2)", [attempt.jobId, attempt.machineId]);
  if (onRecord === "ours") {
    await recordEnd(tx, attempt, { event: "Finished", warnings: harvest.warnings });
    return { result: "started", inserted: inserted.length === 1 };
  }
  await recordEnd(tx, attempt, {
    event: "Canceled",
    cause: "the machine has another agent key on record by now; this attempt's key was not stored",
  });
  return { result: "already_started" };
}

/** Whether an uncertain commit of this attempt's `finish` was carried out, whatever became of the key since. */
export async function wasFinished(tx: Tx, attempt: Attempt): Promise<boolean> {
  const rows = await tx.query(
    `select from bmdb.work_history
     where machine_id = $1 and session_id = $2 and job_id = $3 and event = 'Finished'`,
    [attempt.machineId, attempt.sessionId, attempt.jobId],
  );
  return rows.length > 0;
}

async function stillProvidedAs(tx: Tx, machineId: string, harvest: Harvest): Promise<boolean> {
  const rows = await tx.query(
    `select from bmdb.machine_provided
     where machine_id = $1 and provider = $2 and provider_id = $3`,
    [machineId, harvest.provider, harvest.providerId],
  );
  return rows.length === 1;
}

/** Why nothing was inserted. Our own key may stand there already: the commit that got no answer was one. */
async function whatIsOnRecord(
  tx: Tx,
  machineId: string,
  harvest: Harvest,
): Promise<"ours" | "another" | { byMachineId: string }> {
  const rows = await tx.query<{ machine_id: string; same: boolean }>(
    `select machine_id, agent_public_key = $2 as same
     from bmdb.machine_agent_started
     where machine_id = $1 or agent_public_key = $2`,
    [machineId, harvest.agentKey],
  );
  const own = rows.find((row) => row.machine_id === machineId);
  if (own !== undefined) {
    return own.same ? "ours" : "another";
  }
  const other = rows[0];
  if (other === undefined) {
    // The row that was in the way has gone again since: the caller tries anew.
    throw new Error("the agent key could neither be inserted nor found");
  }
  return { byMachineId: other.machine_id };
}

async function deleteBackoff(tx: Tx, machineId: string): Promise<void> {
  await tx.query(
    `delete from bmdb.work_backoff
     where (machine_id, process) in (
       select machine_id, process
       from bmdb.work_backoff
       where machine_id = $1 and process = 'takeover'
       for update skip locked
     )`,
    [machineId],
  );
}
