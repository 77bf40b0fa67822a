import type { TestDatabase } from "./postgres.js";

/** The schema bmdb, and what we rely on or put into graphile_worker, as text: one line or block per object. */
export async function describeSchema(database: TestDatabase): Promise<string> {
  const sections: [string, string][] = [
    [
      "columns",
      `select format('%s.%s %s%s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                case when a.attnotnull then ' not null' else '' end,
                coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), ''),
                case a.attidentity when '' then '' else ' identity' end) as line
       from pg_attribute a
       join pg_class c on c.oid = a.attrelid
       left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
       where c.relnamespace = 'bmdb'::regnamespace and c.relkind = 'r' and a.attnum > 0
         and not a.attisdropped and c.relname <> 'migrations'
       order by c.relname, a.attnum`,
    ],
    [
      "constraints",
      `select format('%s: %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) as line
       from pg_constraint
       where connamespace = 'bmdb'::regnamespace and contype <> 'n' and conrelid::regclass::text <> 'bmdb.migrations'
       order by 1`,
    ],
    [
      "indexes",
      `select indexdef as line from pg_indexes
       where schemaname = 'bmdb' and tablename <> 'migrations' order by indexname`,
    ],
    [
      "triggers",
      `select pg_get_triggerdef(oid) as line from pg_trigger
       where not tgisinternal and tgrelid::regclass::text like 'bmdb.%' order by tgname`,
    ],
    [
      "functions",
      `select format('%s%s%s %s', oid::regprocedure, case when prosecdef then ' security definer' else '' end,
                coalesce(' ' || proconfig::text, ''), md5(prosrc)) as line
       from pg_proc where pronamespace = 'bmdb'::regnamespace order by 1`,
    ],
    [
      "views",
      `select format('%s %s %s', c.oid::regclass, md5(pg_get_viewdef(c.oid)), string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' order by a.attnum)) as line
       from pg_class c join pg_attribute a on a.attrelid = c.oid
       where relnamespace = 'bmdb'::regnamespace and relkind = 'v'
       group by c.oid order by 1`,
    ],
    [
      "policies",
      `select format('%I.%I %s to %s using %s check %s', schemaname, tablename, cmd, roles, qual, with_check) as line
       from pg_policies where schemaname in ('bmdb', 'graphile_worker') order by tablename`,
    ],
    [
      "grants on tables",
      `select format('%s.%s to %s: %s', table_schema, table_name, grantee, string_agg(privilege_type, ', ' order by privilege_type)) as line
       from information_schema.role_table_grants
       where grantee like 'takeover\\_%' and table_schema in ('bmdb', 'graphile_worker')
         and grantee in ('takeover_operator', 'takeover_inventory', 'takeover_worker')
       group by table_schema, table_name, grantee order by 1`,
    ],
    [
      "grants on functions",
      `select format('%s to %s', p.oid::regprocedure, coalesce(string_agg(r.rolname, ', ' order by r.rolname), 'nobody')) as line
       from pg_proc p
       left join lateral aclexplode(p.proacl) acl on acl.grantee <> p.proowner
       left join pg_roles r on r.oid = acl.grantee
       where p.pronamespace = 'bmdb'::regnamespace group by p.oid order by 1`,
    ],
  ];
  const blocks: string[] = [];
  for (const [title, statement] of sections) {
    const rows = await database.query<{ line: string }>(statement);
    blocks.push(`-- ${title}\n${rows.map(({ line }) => line).join("\n")}\n`);
  }
  return blocks.join("\n");
}
