import { sqlState } from "./database-error.js";
import type { Tx } from "./transaction.js";

/** Another transaction holds the machine's row; this one is aborted by the server and must be rolled back. */
export class MachineLocked extends Error {
  override readonly name = "MachineLocked";

  constructor(machineId: string) {
    super(`machine ${machineId} is locked by another attempt`);
  }
}

/** What the claim read of a machine: all that an attempt on it needs. */
export interface ClaimedMachine {
  readonly machineId: string;
  readonly provider: string;
  readonly providerId: string;
  readonly address: string | null;
  readonly sshPort: number | null;
  readonly sshUser: string | null;
  readonly requiredHostKey: string | null;
  readonly recordedHostKey: string | null;
}

/** Of `bmdb.machine_provided as provided` and `bmdb.machine_ssh_host_key as host_key`. */
export const MACHINE_COLUMNS = `
       provided.machine_id as "machineId",
       provided.provider,
       provided.provider_id as "providerId",
       provided.provider_ip_address as address,
       provided.ssh_port as "sshPort",
       provided.ssh_user as "sshUser",
       provided.ssh_host_key as "requiredHostKey",
       host_key.host_key as "recordedHostKey"`;

export type Claim =
  | { readonly state: "eligible"; readonly machine: ClaimedMachine }
  /** Eligible but for a backoff that is in force; an explicit ask overrides it. */
  | { readonly state: "backoff"; readonly machine: ClaimedMachine }
  /** Its key is on record. */
  | { readonly state: "started"; readonly provider: string }
  /** Held, paused, installed, not provided, or no such machine: a job for it has nothing to do. */
  | { readonly state: "not_eligible"; readonly provider: string | null };

/**
 * Locks the machine and reads the world in a second statement, whose snapshot is taken after the lock was
 * granted: read in one, another attempt's commit in between is missed and its machine driven again.
 *
 * NOWAIT, for SKIP LOCKED cannot tell a locked row from none; NO KEY UPDATE, so that other programs may
 * insert facts about the machine meanwhile.
 *
 * @throws MachineLocked
 */
export async function claimMachine(tx: Tx, machineId: string): Promise<Claim> {
  await lockMachine(tx, machineId);
  const [row] = await tx.query<ClaimRow>(
    `select
       ${MACHINE_COLUMNS},
       facts.started,
       facts.held or facts.paused or facts.installed as barred,
       eligible.machine_id is not null as eligible
     from bmdb.machine_provided as provided
     join bmdb.takeover_facts as facts using (machine_id)
     left join bmdb.takeover_eligible as eligible using (machine_id)
     left join bmdb.machine_ssh_host_key as host_key using (machine_id)
     where provided.machine_id = $1`,
    [machineId],
  );
  if (row === undefined) {
    return { state: "not_eligible", provider: null };
  }
  const { started, barred, eligible, ...machine } = row;
  if (eligible) {
    return { state: "eligible", machine };
  }
  if (started) {
    return { state: "started", provider: row.provider };
  }
  return barred ? { state: "not_eligible", provider: row.provider } : { state: "backoff", machine };
}

/** Whether the machine has an agent key by now: a rescue's, which takes no lock, or one set by hand. */
export async function hasAgentKey(tx: Tx, machineId: string): Promise<boolean> {
  const rows = await tx.query("select from bmdb.machine_agent_started where machine_id = $1", [
    machineId,
  ]);
  return rows.length > 0;
}

interface ClaimRow extends ClaimedMachine {
  readonly started: boolean;
  readonly barred: boolean;
  readonly eligible: boolean;
}

async function lockMachine(tx: Tx, machineId: string): Promise<void> {
  try {
    await tx.query("select from bmdb.machines where machine_id = $1 for no key update nowait", [
      machineId,
    ]);
  } catch (error) {
    if (sqlState(error) === "55P03") {
      throw new MachineLocked(machineId);
    }
    throw error;
  }
}
