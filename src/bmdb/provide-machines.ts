import pg from "pg";
import type { OperatorDatabase } from "./operator-database.js";

/** A machine as an inventory program would insert it. */
export interface ProvidedRow {
  readonly machineId: string;
  readonly provider: string;
  readonly providerId: string;
  readonly address: string;
  readonly sshPort: number;
  /** `<type> <base64>`, or null where none is demanded. */
  readonly sshHostKey: string | null;
}

/**
 * The statements that put machines into the database: plain SQL with every value in it, as one would type it.
 * Empty rows make no statement.
 */
export function provideStatements(rows: readonly ProvidedRow[]): string[] {
  if (rows.length === 0) {
    return [];
  }
  const machines = rows.map(({ machineId }) => `(${literal(machineId)})`);
  const provided = rows.map((row) => {
    const who = [row.machineId, row.provider, row.providerId].map(literal);
    const where = [row.address, row.sshPort, row.sshHostKey].map(literal);
    return `(${who.join(", ")},\n   ${where.join(", ")})`;
  });
  return [
    `insert into bmdb.machines (machine_id) values\n  ${machines.join(",\n  ")}`,
    `insert into bmdb.machine_provided
  (machine_id, provider, provider_id,
   provider_ip_address, ssh_port, ssh_host_key)
values
  ${provided.join(",\n  ")}`,
  ];
}

function literal(value: string | number | null): string {
  return typeof value === "string" ? pg.escapeLiteral(value) : String(value);
}

/**
 * Inserts machines, all or none. With `again`, a machine that is there already gets its new address instead,
 * which a worker then tries at once.
 */
export async function provideMachines(
  database: OperatorDatabase,
  rows: readonly ProvidedRow[],
  { again = false } = {},
): Promise<void> {
  const conflicts = [
    "on conflict do nothing",
    `on conflict (machine_id) do update
     set provider_ip_address = excluded.provider_ip_address, ssh_port = excluded.ssh_port,
         ssh_host_key = excluded.ssh_host_key`,
  ];
  const client = await database.connect();
  try {
    await client.query("begin");
    for (const [index, statement] of provideStatements(rows).entries()) {
      await client.query(again ? `${statement}\n${conflicts[index]}` : statement);
    }
    await client.query("commit");
  } catch (error) {
    // The first error is the one to tell; a connection that cannot roll back is thrown away below.
    await client.query("rollback").catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}

/**
 * Takes machines out of the database with all that was noted of them. In an order in which no trigger
 * finds them eligible again: what is not provided is not.
 */
export async function forgetMachines(
  database: OperatorDatabase,
  machineIds: readonly string[],
): Promise<void> {
  const statements = [
    "delete from bmdb.machine_provided where machine_id = any ($1::uuid[])",
    "delete from bmdb.machine_agent_started where machine_id = any ($1::uuid[])",
    "select graphile_worker.remove_job('takeover:' || machine_id) from unnest($1::uuid[]) as machine_id",
    "delete from bmdb.work_history where machine_id = any ($1::uuid[])",
    "delete from bmdb.machines where machine_id = any ($1::uuid[])",
  ];
  for (const statement of statements) {
    await database.query(statement, [machineIds]);
  }
}
