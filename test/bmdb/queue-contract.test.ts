import { createRequire } from "node:module";
import { expect, test } from "vitest";
import { useDatabase } from "../support/postgres.js";

// What we rely on of graphile-worker beyond its public interface. A release that changes any of it must
// fail here and not in production; see the functions and the view in migrations/0002_queue.sql.

const database = useDatabase();

test("the release is the one that was measured", () => {
  const { version } = createRequire(import.meta.url)("graphile-worker/package.json");
  expect(version).toBe("0.17.3");
});

test("its private tables have the columns that our functions read", async () => {
  const columns = await database.query<{ column: string }>(
    `select format('%s.%s %s', table_name, column_name, data_type) as column
     from information_schema.columns
     where table_schema = 'graphile_worker'
       and (table_name, column_name) in (
         ('_private_jobs', 'id'), ('_private_jobs', 'key'), ('_private_jobs', 'payload'),
         ('_private_jobs', 'task_id'), ('_private_jobs', 'run_at'), ('_private_jobs', 'attempts'),
         ('_private_jobs', 'max_attempts'), ('_private_jobs', 'locked_at'),
         ('_private_jobs', 'locked_by'), ('_private_jobs', 'job_queue_id'),
         ('_private_tasks', 'id'), ('_private_tasks', 'identifier'), ('_private_job_queues', 'id'),
         ('_private_job_queues', 'locked_at'), ('_private_job_queues', 'locked_by')
       ) order by 1`,
  );
  expect(columns.map(({ column }) => column)).toEqual([
    "_private_job_queues.id integer",
    "_private_job_queues.locked_at timestamp with time zone",
    "_private_job_queues.locked_by text",
    "_private_jobs.attempts smallint",
    "_private_jobs.id bigint",
    "_private_jobs.job_queue_id integer",
    "_private_jobs.key text",
    "_private_jobs.locked_at timestamp with time zone",
    "_private_jobs.locked_by text",
    "_private_jobs.max_attempts smallint",
    "_private_jobs.payload json",
    "_private_jobs.run_at timestamp with time zone",
    "_private_jobs.task_id integer",
    "_private_tasks.id integer",
    "_private_tasks.identifier text",
  ]);
});

test("add_jobs takes the specification that put builds, and gives rows with a key", async () => {
  const [row] = await database.query(
    `select key, max_attempts, payload from graphile_worker.add_jobs(array[
       row('takeover', '{"machineId": "x"}', null, now(), 32767, 'k', null, null)::graphile_worker.job_spec
     ], true)`,
  );
  expect(row).toEqual({ key: "k", max_attempts: 32767, payload: { machineId: "x" } });
});

test("a job whose row our transaction deleted is no trouble to a late completion, a late failure or a new lock", async () => {
  const [job] = await database.query<{ id: string }>(
    "select id from graphile_worker.add_job('takeover', '{}')",
  );
  await database.query("select bmdb.delete_takeover_job($1)", [job?.id]);
  await database.query("select bmdb.delete_takeover_job($1)", [job?.id]);
  const completed = await database.query(
    "select graphile_worker.complete_jobs(array[$1::bigint])",
    [job?.id],
  );
  expect(completed).toEqual([]);
});

test("our delete leaves jobs of other tasks alone", async () => {
  const [job] = await database.query<{ id: string }>(
    "select id from graphile_worker.add_job('another', '{}')",
  );
  await database.query("select bmdb.delete_takeover_job($1)", [job?.id]);
  expect(await database.query("select from graphile_worker.jobs")).toHaveLength(1);
});

test("the task identifier is there before the first job", async () => {
  expect(
    await database.query(
      "select from graphile_worker._private_tasks where identifier = 'takeover'",
    ),
  ).toHaveLength(1);
});

test("its four private tables have row security, and a policy that lets takeover_worker in", async () => {
  const tables = await database.query(
    `select c.relname, c.relrowsecurity as secured, count(p.polname)::integer as policies
     from pg_class c left join pg_policy p on p.polrelid = c.oid and p.polname = 'takeover_worker'
     where c.relnamespace = 'graphile_worker'::regnamespace and c.relname like '\\_private%' and c.relkind = 'r'
     group by c.oid, c.relname, c.relrowsecurity order by 1`,
  );
  expect(tables).toEqual(
    ["_private_job_queues", "_private_jobs", "_private_known_crontabs", "_private_tasks"].map(
      (relname) => ({ relname, secured: true, policies: 1 }),
    ),
  );
});
