-- Three roles without login; give them to the roles that log in:
--   create role worker_1 login password '…' in role takeover_worker;
-- They belong to the whole server, so another database's migration may have made them, even just now.
do $$
declare
  wanted text;
begin
  foreach wanted in array array['takeover_operator', 'takeover_inventory', 'takeover_worker'] loop
    begin
      if not exists (select from pg_roles where rolname = wanted) then
        execute format('create role %I nologin', wanted);
      end if;
    exception when duplicate_object or unique_violation then
      null; -- made by another migration meanwhile
    end;
  end loop;
end
$$;

revoke execute on all functions in schema bmdb from public;
grant usage on schema bmdb to takeover_operator, takeover_inventory, takeover_worker;

-- Operators see everything, and steer.
grant select on all tables in schema bmdb to takeover_operator;
grant insert, update, delete on
  bmdb.machines, bmdb.machine_provided, bmdb.machine_hold, bmdb.provider_pause, bmdb.work_backoff
  to takeover_operator;
grant delete on bmdb.machine_agent_started, bmdb.machine_ssh_host_key to takeover_operator;
grant execute on function
  bmdb.enqueue_takeover(uuid), bmdb.enqueue_takeovers(uuid[]),
  bmdb.hold_takeover(uuid, text), bmdb.release_takeover(uuid), bmdb.sweep_takeovers()
  to takeover_operator;

-- Inventory programs say which machines there are, and what happened to them.
grant select, insert, update, delete on
  bmdb.machines, bmdb.machine_provided,
  bmdb.machine_os_installation_request, bmdb.machine_os_installation_report
  to takeover_inventory;
grant select on bmdb.machine_agent_started, bmdb.machine_hold, bmdb.machine_status
  to takeover_inventory;

-- Workers.
grant select on all tables in schema bmdb to takeover_worker;
-- To lock a machine's row one must be allowed to update a column of it; no worker ever does.
grant update (machine_created_at) on bmdb.machines to takeover_worker;
grant insert on bmdb.machine_agent_started, bmdb.machine_ssh_host_key to takeover_worker;
-- delete: the history's retention
grant insert, delete on bmdb.work_history to takeover_worker;
grant insert, update, delete on bmdb.sessions, bmdb.work_backoff to takeover_worker;
grant insert, update on bmdb.upkeep_turn to takeover_worker;
grant execute on function
  bmdb.put_takeover_jobs(uuid[], timestamptz[], boolean),
  bmdb.delete_takeover_job(bigint), bmdb.delete_takeover_jobs(bigint, uuid),
  bmdb.sweep_takeovers()
  to takeover_worker;

-- graphile-worker's own tables have row security: with grants alone a worker polls a queue that looks empty,
-- and no error is raised.
grant usage on schema graphile_worker to takeover_worker, takeover_operator;
grant select on graphile_worker.jobs to takeover_worker, takeover_operator;
grant select on graphile_worker.migrations to takeover_worker;
grant usage, select on all sequences in schema graphile_worker to takeover_worker;
do $$
declare
  private text;
begin
  foreach private in array array[
    '_private_jobs', '_private_job_queues', '_private_tasks', '_private_known_crontabs'
  ] loop
    execute format(
      'grant select, insert, update, delete on graphile_worker.%I to takeover_worker', private
    );
    execute format('drop policy if exists takeover_worker on graphile_worker.%I', private);
    execute format(
      'create policy takeover_worker on graphile_worker.%I to takeover_worker using (true) with check (true)',
      private
    );
  end loop;
end
$$;
