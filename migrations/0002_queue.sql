-- How machines get into the queue: the predicate, the one function that adds jobs, the triggers, what
-- operators call, and the sweep.
--
-- Rules that hold for every statement here and in src/bmdb:
--  * rows are touched in the order machine, backoff, job;
--  * inside a transaction now() is when it began, so every time is clock_timestamp();
--  * graphile-worker's tables have row security, so functions that touch them are SECURITY DEFINER with a
--    fixed search_path, and 0004_roles.sql says who may call them.

-- Each provided machine with every fact that decides whether it is taken over. The volatile clock stays out
-- of the select list: a view with it there is not inlined, and the sweep would read every machine.
create view bmdb.takeover_facts as
select
  provided.machine_id,
  provided.provider,
  started.machine_id is not null as started,
  hold.machine_id is not null as held,
  pause.provider is not null as paused,
  installed.machine_id is not null as installed,
  backoff.kind as backoff_kind,
  backoff.until as backoff_until
from bmdb.machine_provided as provided
left join bmdb.machine_agent_started as started on started.machine_id = provided.machine_id
left join bmdb.machine_hold as hold on hold.machine_id = provided.machine_id
left join bmdb.provider_pause as pause on pause.provider = provided.provider
left join (
  bmdb.machine_os_installation_request as installed
  join bmdb.machine_os_installation_report as report
    on report.machine_id = installed.machine_id and report.generation = installed.generation
) on installed.machine_id = provided.machine_id
left join bmdb.work_backoff as backoff
  on backoff.machine_id = provided.machine_id and backoff.process = 'takeover';

-- THE predicate. Triggers, sweep, claim and metrics all ask this view.
create view bmdb.takeover_eligible as
select machine_id, provider
from bmdb.takeover_facts
where not started
  and not held
  and not paused
  and not installed
  and (backoff_until is null or backoff_until <= clock_timestamp());

-- The takeover jobs, read from graphile-worker's private tables: here, in the two delete functions, in the
-- sweep and in the reaping are the only places that know them; test/bmdb/queue-contract.test.ts holds what they rely on.
-- A job's machine is read from its payload, for a job that was replaced while it ran has lost its key.
create view bmdb.takeover_jobs as
select
  job.id as job_id,
  case
    when job.payload ->> 'machineId' ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'
    then (job.payload ->> 'machineId')::uuid
  end as machine_id,
  job.key as job_key,
  job.run_at,
  job.attempts < job.max_attempts as retries_left,
  job.locked_at,
  job.locked_by
from graphile_worker._private_jobs as job
join graphile_worker._private_tasks as task on task.id = job.task_id
where task.identifier = 'takeover';

-- Registered now: the first use of a new identifier would block every other user of it until its commit.
insert into graphile_worker._private_tasks (identifier)
values ('takeover')
on conflict (identifier) do nothing;

-- put: one job per machine, at its time. keep: a job that waits already keeps its time.
--
-- A keyed add silently does nothing while that job is just being locked, so keys that did not come back are
-- added again. Writers with overlapping sets deadlock whatever their order while jobs run, so the deadlock
-- is caught here, where only the add is lost, and tried again. Both loops are bounded.
create function bmdb.put_takeover_jobs(machines uuid[], due timestamptz[], keep boolean)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  missing uuid[];
  times timestamptz[];
  added text[];
  deadlocks integer := 0;
begin
  -- Equal keys in one call are an error of the library's.
  select array_agg(machine order by machine), array_agg(at order by machine)
  into missing, times
  from (
    select machine, min(at) as at
    from unnest(machines, due) as asked (machine, at)
    where machine is not null
    group by machine
  ) as distinct_machines;

  for round in 1..100 loop
    exit when missing is null;
    begin
      select array_agg(job.key)
      into added
      from graphile_worker.add_jobs(
        (
          select array_agg(
            row(
              'takeover', json_build_object('machineId', machine), null, at,
              -- Retries are ours, so the library's count never decides; this is the column's largest value.
              32767,
              'takeover:' || machine, null, null
            )::graphile_worker.job_spec
            order by machine
          )
          from unnest(missing, times) as asked (machine, at)
        ),
        keep
      ) as job;
    exception when deadlock_detected then
      deadlocks := deadlocks + 1;
      if deadlocks > 20 then
        raise;
      end if;
      continue;
    end;
    select array_agg(machine order by machine), array_agg(at order by machine)
    into missing, times
    from unnest(missing, times) as asked (machine, at)
    where not exists (
      select from unnest(added) as key where key = 'takeover:' || machine
    );
  end loop;

  if missing is not null then
    raise exception 'takeover jobs of % machines could not be added in 100 rounds', cardinality(missing)
      using hint = 'Try again; the sweep adds missed jobs within a minute, too.';
  end if;
end
$$;

-- An attempt's own job row, by id alone: whoever holds the machine's lock owns its job. Locked rows are
-- skipped, so that nothing here ever waits.
create function bmdb.delete_takeover_job(job bigint)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  delete from graphile_worker._private_jobs
  where id in (
    select id
    from graphile_worker._private_jobs
    where id = job
      and task_id = (select id from graphile_worker._private_tasks where identifier = 'takeover')
    for update skip locked
  );
$$;

-- The same after a success, with the job that still waits for this machine (beside a job added by hand
-- without key there may be one): it could do nothing any more.
create function bmdb.delete_takeover_jobs(job bigint, machine uuid)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  delete from graphile_worker._private_jobs
  where id in (
    select id
    from graphile_worker._private_jobs
    where (id = job or (key = 'takeover:' || machine and locked_at is null))
      and task_id = (select id from graphile_worker._private_tasks where identifier = 'takeover')
    for update skip locked
  );
$$;

-- The operators' explicit ask: start these machines now, whatever their backoff. Takes machines that are
-- provided, not held and without a key; leaves others alone; tells how many it took.
-- An upsert, for it waits for a failure that is being committed just then; a delete would not see it.
create function bmdb.enqueue_takeovers(machines uuid[])
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  taken uuid[];
begin
  with asked as (
    insert into bmdb.work_backoff as backoff (machine_id, process, kind, until)
    select machine_id, 'takeover', 'asked', clock_timestamp()
    from bmdb.takeover_facts
    where machine_id = any (machines) and not started and not held
    order by machine_id
    on conflict (machine_id, process) do update
    set kind = 'asked', until = clock_timestamp(), cause = null, code = null,
        last_interval_seconds = null
    returning machine_id
  )
  select array_agg(machine_id) into taken from asked;

  perform bmdb.put_takeover_jobs(
    taken, array_fill(clock_timestamp(), array[coalesce(cardinality(taken), 0)]), false
  );
  return coalesce(cardinality(taken), 0);
end
$$;

create function bmdb.enqueue_takeover(machine uuid)
returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select bmdb.enqueue_takeovers(array[machine]) = 1;
$$;

-- Not until an operator releases it. An attempt that runs is not disturbed; whatever job waits ends by itself.
create function bmdb.hold_takeover(machine uuid, reason text)
returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  with held as (
    insert into bmdb.machine_hold as hold (machine_id, reason)
    select machine_id, hold_takeover.reason from bmdb.machines where machine_id = machine
    on conflict (machine_id) do update set reason = excluded.reason
    returning machine_id
  )
  select exists (select from held);
$$;

-- Lifts the hold; the machine is tried at once, or when its backoff ends. False: it was not held.
create function bmdb.release_takeover(machine uuid)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from bmdb.machine_hold where machine_id = machine;
  if not found then
    return false;
  end if;
  perform bmdb.put_takeover_jobs(
    array[machine_id], array[greatest(clock_timestamp(), backoff_until)], false
  )
  from bmdb.takeover_facts
  where machine_id = machine and not started;
  return true;
end
$$;

-- The sweep's put: leaves out the machines whose jobs somebody's open transaction holds, for as long as that may
-- be, and puts the others, half by half. Gives how many it put until `deadline`.
create function bmdb.put_missed_takeovers(machines uuid[], deadline timestamptz)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
declare
  half integer := cardinality(machines) / 2;
begin
  if clock_timestamp() > deadline then
    return 0;
  end if;
  begin
    perform bmdb.put_takeover_jobs(
      machines, array_fill(clock_timestamp(), array[cardinality(machines)]), false
    );
    return cardinality(machines);
  exception when lock_not_available then
    if half = 0 then
      return 0;
    end if;
  end;
  return bmdb.put_missed_takeovers(machines[:half], deadline)
    + bmdb.put_missed_takeovers(machines[half + 1:], deadline);
end
$$;

-- Heals whatever was missed: puts eligible machines that have no job which will run (locked, or due within
-- the minute), and deletes rows that can never run. One batch per call, so that each commits on its own;
-- gives the number of machines put, and 0 while another sweeps.
--
-- Not in keep mode: a machine whose backoff was edited by hand has a job that waits for the old time.
create function bmdb.sweep_takeovers()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
-- Each table read once and hashed, at any size: 1.3 s for a million machines, of which 50,000 have a job. Left to
-- itself the planner expects the 500 of the batch soon and walks the indexes for them, 8 to 20 s at rest.
set enable_nestloop = off
set enable_mergejoin = off
set work_mem = '64MB'
as $$
declare
  -- A variable: with the volatile clock inside, NOT EXISTS would be asked machine by machine.
  soon timestamptz := clock_timestamp() + interval '1 minute';
  missed uuid[];
  put integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('bmdb.sweep_takeovers', 0)) then
    return 0;
  end if;

  select array_agg(machine_id)
  into missed
  from (
    select eligible.machine_id
    from bmdb.takeover_eligible as eligible
    where not exists (
      select
      from bmdb.takeover_jobs as job
      where job.machine_id = eligible.machine_id
        and (job.locked_at is not null or (job.retries_left and job.run_at <= soon))
    )
    limit 500
  ) as batch;
  if missed is not null then
    put := bmdb.put_missed_takeovers(missed, clock_timestamp() + interval '5 seconds');
  end if;

  delete from graphile_worker._private_jobs
  where id in (
    select id
    from graphile_worker._private_jobs
    where key is null
      and attempts >= max_attempts
      and locked_at is null
      and task_id = (select id from graphile_worker._private_tasks where identifier = 'takeover')
    limit 500
    for update skip locked
  );
  return put;
end
$$;

-- Triggers: per statement, with transition tables. A row trigger took 27.7 s and 100,000 notifications for
-- 100,000 machines, this 2.3 s and one. Postgres wants one trigger per event, and calls it for no rows too.

create function bmdb.put_eligible(machines uuid[])
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  eligible uuid[];
begin
  select array_agg(machine_id) into eligible
  from bmdb.takeover_eligible
  where machine_id = any (machines);
  perform bmdb.put_takeover_jobs(
    eligible, array_fill(clock_timestamp(), array[coalesce(cardinality(eligible), 0)]), false
  );
end
$$;

create function bmdb.on_machine_provided()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- New hardware: what was noted of the old does not hold for it.
  delete from bmdb.machine_ssh_host_key where machine_id in (select machine_id from new_rows);
  delete from bmdb.work_backoff where machine_id in (select machine_id from new_rows);
  perform bmdb.put_eligible(array(select machine_id from new_rows));
  return null;
end
$$;

create trigger machine_provided_enqueues_takeover
after insert on bmdb.machine_provided
referencing new table as new_rows
for each statement execute function bmdb.on_machine_provided();

create function bmdb.on_machine_provided_changed()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- Another provider id names other hardware, which has a host key of its own.
  delete from bmdb.machine_ssh_host_key
  where machine_id in (
    select new_rows.machine_id
    from new_rows
    join old_rows using (machine_id)
    where (new_rows.provider, new_rows.provider_id)
      is distinct from (old_rows.provider, old_rows.provider_id)
  );
  perform bmdb.enqueue_takeovers(array(
    select new_rows.machine_id
    from new_rows
    left join old_rows using (machine_id)
    where (new_rows.provider, new_rows.provider_id, new_rows.provider_ip_address,
           new_rows.ssh_port, new_rows.ssh_user)
      is distinct from
          (old_rows.provider, old_rows.provider_id, old_rows.provider_ip_address,
           old_rows.ssh_port, old_rows.ssh_user)
  ));
  return null;
end
$$;

create trigger machine_provided_change_enqueues_takeover
after update on bmdb.machine_provided
referencing new table as new_rows old table as old_rows
for each statement execute function bmdb.on_machine_provided_changed();

-- How a re-start is asked for: delete the row of the agent that was started.
create function bmdb.on_machine_agent_forgotten()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform bmdb.put_eligible(array(select machine_id from old_rows));
  return null;
end
$$;

create trigger machine_agent_forgotten_enqueues_takeover
after delete on bmdb.machine_agent_started
referencing old table as old_rows
for each statement execute function bmdb.on_machine_agent_forgotten();
