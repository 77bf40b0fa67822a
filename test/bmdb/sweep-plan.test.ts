import { expect, test } from "vitest";
import { createDatabase } from "../support/postgres.js";

// With a million machines, to see the plan and the time:
// MACHINES=1000000 npx vitest run test/bmdb/sweep-plan.test.ts

const machines = Number(process.env.MACHINES ?? 5_000);

/** A fleet at rest: of 20 machines 19 have their agent, one waits for its next attempt. */
const FLEET = `
  set session_replication_role = replica;
  insert into bmdb.machines (machine_id) select gen_random_uuid() from generate_series(1, ${machines});
  insert into bmdb.machine_provided (machine_id, provider, provider_id)
    select machine_id, 'static', machine_id::text from bmdb.machines;
  insert into bmdb.machine_agent_started (machine_id, agent_public_key)
    select machine_id, sha256(machine_id::text::bytea) from bmdb.machines limit ${machines - machines / 20};
  set session_replication_role = origin;
  insert into bmdb.work_backoff (machine_id, process, kind, until)
    select machine_id, 'takeover', 'failure', now() + interval '1 h'
    from bmdb.machine_provided
    where not exists (
      select from bmdb.machine_agent_started as started
      where started.machine_id = machine_provided.machine_id
    );
  analyze;
  select bmdb.put_takeover_jobs(array_agg(machine_id), array_agg(until), false) from bmdb.work_backoff;
  load 'auto_explain';
  set auto_explain.log_min_duration = 0;
  set auto_explain.log_analyze = on;
  set auto_explain.log_timing = off;
  set auto_explain.log_buffers = off;
  set auto_explain.log_nested_statements = on;
  set client_min_messages = log;`;

test(`the sweep of ${machines} machines reads each table once`, async () => {
  const database = await createDatabase();
  const client = await database.pool.connect();
  try {
    await client.query(FLEET);
    const plans: string[] = [];
    client.on("notice", ({ message }) => plans.push(message ?? ""));
    const begun = performance.now();
    expect((await client.query("select bmdb.sweep_takeovers() as put")).rows).toEqual([{ put: 0 }]);
    const seconds = (performance.now() - begun) / 1000;
    const [plan = ""] = plans.filter((text) => text.includes("takeover_eligible"));
    if (machines > 100_000) {
      process.stdout.write(`${plan}\nin all ${seconds.toFixed(1)} s\n`);
    }
    expect(plan).toContain("Hash Anti Join");
    expect(plan).not.toMatch(/Nested Loop|Merge|Index|loops=[02-9]/);
  } finally {
    client.release();
    await database.drop();
  }
}, 300_000);
