import type pg from "pg";
import { DatabaseUnusable } from "../config/exit.js";
import { describe } from "../errors.js";

export interface Expected {
  readonly migrations: readonly string[];
  readonly queueLevel: number;
  /** How many connections this worker opens at most. */
  readonly connections: number;
}

/**
 * Checks that a worker can do its work with this database: reachable, both schemas of the version this
 * program knows, a role with the rights, connections enough. Changes nothing; never migrates.
 *
 * @throws DatabaseUnusable with one sentence that names the remedy
 */
export async function checkDatabase(pool: pg.Pool, expected: Expected): Promise<void> {
  try {
    await pool.query("select");
  } catch (error) {
    const reason = describe(error);
    // What PgBouncer says to the timeouts that our connections begin with.
    const remedy = /unsupported startup parameter/.test(reason)
      ? "there is a pooler in between; give Postgres's own address, for a worker needs sessions of its own"
      : "check --database-url, and that Postgres accepts connections";
    throw new DatabaseUnusable(`the database cannot be used: ${reason}; ${remedy}`, {
      cause: error,
    });
  }
  try {
    await checkSchemasExist(pool);
    await checkVersions(pool, expected);
    await checkRights(pool);
    await checkConnections(pool, expected.connections);
  } catch (error) {
    if (error instanceof DatabaseUnusable) {
      throw error;
    }
    throw new DatabaseUnusable(`the database cannot be checked: ${describe(error)}`, {
      cause: error,
    });
  }
}

async function checkSchemasExist(pool: pg.Pool): Promise<void> {
  const { rows } = await pool.query<{ name: string; usable: boolean; role: string }>(
    `select nspname as name, has_schema_privilege(oid, 'usage') as usable, current_user as role
     from pg_namespace where nspname in ('bmdb', 'graphile_worker')`,
  );
  if (rows.length < 2) {
    throw new DatabaseUnusable("the database has no takeover schema: run takeover migrate");
  }
  const [closed] = rows.filter(({ usable }) => !usable);
  if (closed !== undefined) {
    throw lackingRights(closed.role, [`usage of schema ${closed.name}`]);
  }
}

async function checkVersions(pool: pg.Pool, expected: Expected): Promise<void> {
  const readable = await pool.query<{ both: boolean; role: string }>(
    `select has_table_privilege('bmdb.migrations', 'select')
        and has_table_privilege('graphile_worker.migrations', 'select') as both, current_user as role`,
  );
  if (!readable.rows[0]?.both) {
    throw lackingRights(readable.rows[0]?.role ?? "?", ["select on bmdb.migrations"]);
  }
  await checkSchemaVersion(pool, expected.migrations);
  const queue = await pool.query<{ level: number }>(
    "select coalesce(max(id), 0) as level from graphile_worker.migrations",
  );
  const level = queue.rows[0]?.level ?? 0;
  if (level !== expected.queueLevel) {
    throw new DatabaseUnusable(
      level < expected.queueLevel
        ? `the schema graphile_worker is at level ${level}, older than this program's ${expected.queueLevel}: run takeover migrate`
        : `the schema graphile_worker is at level ${level}, newer than this program's ${expected.queueLevel}: use the release of takeover that fits it`,
    );
  }
}

/**
 * Checks that the schema bmdb has these migrations and no others.
 *
 * @throws DatabaseUnusable
 */
export async function checkSchemaVersion(
  pool: pg.Pool,
  migrations: readonly string[],
): Promise<void> {
  const { rows } = await pool.query<{ name: string }>(
    "select name from bmdb.migrations order by id",
  );
  const applied = rows.map(({ name }) => name);
  const missing = migrations.filter((name) => !applied.includes(name));
  if (missing.length > 0) {
    throw new DatabaseUnusable(
      `the schema bmdb is older than this program (missing ${missing.join(", ")}): run takeover migrate`,
    );
  }
  const unknown = applied.filter((name) => !migrations.includes(name));
  if (unknown.length > 0) {
    throw new DatabaseUnusable(
      `the schema bmdb is newer than this program (it has ${unknown.join(", ")}): use the release of takeover that fits it`,
    );
  }
}

/** What 0004_roles.sql gives to takeover_worker, as far as it is told apart from "nothing" by its absence. */
async function checkRights(pool: pg.Pool): Promise<void> {
  const { rows } = await pool.query<{ role: string; missing: string[] }>(
    `with needed (relation, rights) as (
       values
         ('bmdb.machines', 'select'),
         ('bmdb.takeover_eligible', 'select'),
         ('bmdb.machine_agent_started', 'insert'),
         ('bmdb.machine_ssh_host_key', 'insert'),
         ('bmdb.work_backoff', 'insert'),
         ('bmdb.work_history', 'insert'),
         ('bmdb.sessions', 'insert'),
         ('graphile_worker._private_jobs', 'update'),
         ('graphile_worker._private_job_queues', 'update'),
         ('graphile_worker._private_tasks', 'insert'),
         ('graphile_worker._private_known_crontabs', 'insert')
     ), lacking as (
       select rights || ' on ' || relation as lack
       from needed
       where not has_table_privilege(relation, rights)
       union all
       select 'update on bmdb.machines (to lock its rows)'
       where not has_any_column_privilege('bmdb.machines', 'update')
       union all
       -- Without a policy the queue looks empty, and no error is raised.
       select 'a row-security policy on ' || relation
       from needed
       where relation like 'graphile_worker.%'
         and row_security_active(relation)
         and not exists (
           select
           from pg_policy
           where polrelid = relation::regclass
             and exists (select from unnest(polroles) as member where member = 0 or pg_has_role(member, 'usage'))
         )
       union all
       select 'execute on ' || function
       from unnest(array[
         'bmdb.put_takeover_jobs(uuid[],timestamptz[],boolean)',
         'bmdb.delete_takeover_job(bigint)',
         'bmdb.delete_takeover_jobs(bigint,uuid)',
         'bmdb.sweep_takeovers()',
         'bmdb.reap_sessions()'
       ]) as function
       where not has_function_privilege(function, 'execute')
     )
     select current_user as role, coalesce(array_agg(lack), '{}') as missing from lacking`,
  );
  const { role, missing } = rows[0] ?? { role: "?", missing: [] };
  if (missing.length > 0) {
    throw lackingRights(role, missing);
  }
}

function lackingRights(role: string, missing: readonly string[]): DatabaseUnusable {
  const first = missing.slice(0, 3).join(", ");
  const more = missing.length > 3 ? ` and ${missing.length - 3} more` : "";
  return new DatabaseUnusable(
    `the role "${role}" lacks rights that a worker needs (${first}${more}): grant takeover_worker to "${role}"`,
  );
}

async function checkConnections(pool: pg.Pool, needed: number): Promise<void> {
  const { rows } = await pool.query<{ usable: number }>(
    `select sum(case name when 'max_connections' then setting::integer else -setting::integer end)::integer as usable
     from pg_settings
     where name in ('max_connections', 'superuser_reserved_connections', 'reserved_connections')`,
  );
  const usable = rows[0]?.usable ?? 0;
  if (needed > usable) {
    throw new DatabaseUnusable(
      `this worker may open ${needed} connections, the server allows ${usable} in all: lower --concurrency, or raise max_connections`,
    );
  }
}
