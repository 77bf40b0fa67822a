-- Reaped jobs get a new id. A worker that was frozen, and goes on, ends its job by id: that deleted the row of the
-- worker which had taken the job over, and bmdb.work no longer showed an attempt that ran.

-- Deletes sessions past their deadline, frees the takeover jobs locked under a name that no session has, and
-- ends the open 'Started' of the sessions it deleted. Gives the number of jobs freed; 0 while another reaps.
-- Any replica calls it with each heartbeat.
create or replace function bmdb.reap_sessions()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
  takeover integer := (
    select id from graphile_worker._private_tasks where identifier = 'takeover'
  );
  lapsed uuid[];
  pools text[];
  freed integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('bmdb.reap_sessions', 0)) then
    return 0;
  end if;

  -- None while the server has not been up for as long as a session lives: nobody could keep one while it was down,
  -- and whoever has an agent's key in hand then is about to store it.
  with gone as (
    delete from bmdb.sessions
    where deadline < clock_timestamp()
      and pg_postmaster_start_time() < clock_timestamp() - interval '12 seconds'
    returning session_id
  )
  select coalesce(array_agg(session_id), '{}') into lapsed from gone;

  -- A lock without a name, made by hand, is nobody's; freeing goes by names, so it gets one that no session has.
  update graphile_worker._private_jobs
  set locked_by = 'nobody'
  where locked_at is not null and locked_by is null and task_id = takeover;

  -- Whoever adds jobs by hand may name a queue, which runs its jobs one by one. The library gives a queue free
  -- as it deletes the job that ran; where an attempt has deleted its own it stays locked, and no job runs in it.
  update graphile_worker._private_job_queues as queue
  set locked_at = null, locked_by = null
  where queue.locked_at < clock_timestamp() - interval '5 seconds'
    and exists (
      select from graphile_worker._private_jobs as job
      where job.job_queue_id = queue.id and job.task_id = takeover
    )
    and not exists (
      select from graphile_worker._private_jobs as job
      where job.job_queue_id = queue.id and job.locked_at is not null
    );

  -- A worker registers its name before it fetches; the few seconds are for whoever locks jobs by hand.
  select array_agg(distinct job.locked_by), count(*)
  into pools, freed
  from bmdb.takeover_jobs as job
  where job.locked_at < clock_timestamp() - interval '5 seconds'
    and not exists (select from bmdb.sessions as session where session.pool_id = job.locked_by);

  if pools is not null then
    -- The worker that had such a job may live on, frozen or cut off; what it then deletes by id, or the library for
    -- it, must not be the row of whoever picks the job next.
    update graphile_worker._private_jobs
    set id = default
    where locked_by = any (pools) and task_id = takeover;
    perform graphile_worker.force_unlock_workers(pools);
    -- force_unlock_workers wakes nobody; this is how add_jobs does.
    perform pg_notify(
      'jobs:insert', json_build_object('r', random(), 'count', freed)::text
    );
  end if;

  insert into bmdb.work_history
    (machine_id, process, event, failed_cause, session_id, job_id, duration)
  select
    started.machine_id, started.process, 'Canceled',
    'the worker''s session lapsed: it died, or was cut off from the database',
    started.session_id, started.job_id, clock_timestamp() - started.at
  from bmdb.work_history as started
  where started.event = 'Started'
    and started.session_id = any (lapsed)
    and not exists (
      select
      from bmdb.work_history as ended
      where ended.machine_id = started.machine_id
        and ended.history_id > started.history_id
        and ended.session_id = started.session_id
        and ended.job_id = started.job_id
        and ended.event <> 'Started'
    );
  return freed;
end
$$;
