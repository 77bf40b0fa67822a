import pg from "pg";
import { beforeEach, describe, expect, test } from "vitest";
import { useDatabase } from "../support/postgres.js";

const database = useDatabase();
beforeEach(async () => {
  await database.query(
    `with new as (insert into bmdb.machines default values returning machine_id)
     insert into bmdb.machine_provided (machine_id, provider, provider_id) select machine_id, 'static', 'm1' from new`,
  );
});

async function tryAs(role: string, statement: string): Promise<string> {
  const client = new pg.Client(await database.urlAs(role));
  await client.connect();
  try {
    await client.query(`begin; ${statement}; rollback`);
    return "allowed";
  } catch (error) {
    return error instanceof pg.DatabaseError && error.code === "42501" ? "denied" : String(error);
  } finally {
    await client.end();
  }
}

const INSERT_MACHINE = `with new as (insert into bmdb.machines default values returning machine_id)
  insert into bmdb.machine_provided (machine_id, provider, provider_id) select machine_id, 'static', 'm2' from new`;

describe.each([
  ["takeover_operator", "insert a machine", INSERT_MACHINE, "allowed"],
  [
    "takeover_operator",
    "ask",
    "select bmdb.enqueue_takeover(machine_id) from bmdb.machines",
    "allowed",
  ],
  [
    "takeover_operator",
    "hold",
    "select bmdb.hold_takeover(machine_id, 'r') from bmdb.machines",
    "allowed",
  ],
  [
    "takeover_operator",
    "look",
    "select * from bmdb.machine_status, bmdb.work, bmdb.work_history",
    "allowed",
  ],
  ["takeover_operator", "want a re-start", "delete from bmdb.machine_agent_started", "allowed"],
  ["takeover_operator", "edit a backoff", "delete from bmdb.work_backoff", "allowed"],
  [
    "takeover_operator",
    "invent a key",
    "insert into bmdb.machine_agent_started (machine_id, agent_public_key) select machine_id, '' from bmdb.machines",
    "denied",
  ],
  ["takeover_operator", "rewrite history", "delete from bmdb.work_history", "denied"],
  [
    "takeover_operator",
    "touch the queue",
    "select bmdb.put_takeover_jobs(null, null, false)",
    "denied",
  ],
  ["takeover_inventory", "insert a machine", INSERT_MACHINE, "allowed"],
  [
    "takeover_inventory",
    "correct an address",
    "update bmdb.machine_provided set provider_ip_address = '192.0.2.3'",
    "allowed",
  ],
  [
    "takeover_inventory",
    "report an installation",
    "insert into bmdb.machine_os_installation_report select machine_id, 1, 'Success', '' from bmdb.machines",
    "allowed",
  ],
  [
    "takeover_inventory",
    "ask",
    "select bmdb.enqueue_takeover(machine_id) from bmdb.machines",
    "denied",
  ],
  ["takeover_inventory", "delete a key", "delete from bmdb.machine_agent_started", "denied"],
  ["takeover_worker", "provide a machine", INSERT_MACHINE, "denied"],
  [
    "takeover_worker",
    "hold",
    "select bmdb.hold_takeover(machine_id, 'r') from bmdb.machines",
    "denied",
  ],
  [
    "takeover_worker",
    "change a key",
    "update bmdb.machine_agent_started set agent_public_key = ''",
    "denied",
  ],
  [
    "takeover_worker",
    "see the queue",
    "do $$ begin if not exists (select from graphile_worker._private_jobs) then raise 'empty'; end if; end $$",
    "allowed",
  ],
] as const)("%s", (role, what, statement, result) => {
  test(`is ${result} to ${what}`, async () => {
    expect(await tryAs(role, statement)).toBe(result);
  });
});
