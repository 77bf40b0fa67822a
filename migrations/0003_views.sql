-- What operators look at.

-- What runs where: derived from the locked jobs and the sessions that live, so it is true whatever crashed.
create view bmdb.work as
select
  job.machine_id,
  'takeover'::text as process,
  session.session_id,
  session.component_name,
  job.job_id,
  job.locked_at as since
from bmdb.takeover_jobs as job
join bmdb.sessions as session on session.pool_id = job.locked_by
where job.locked_at is not null and session.deadline > clock_timestamp();

-- One row per machine with its state, the last failure still in force, and the next attempt.
create view bmdb.machine_status as
select
  machine.machine_id,
  provided.provider,
  provided.provider_id,
  case
    when provided.machine_id is null then 'not_provided'
    when facts.started then 'started'
    when work.machine_id is not null then 'running'
    when facts.held then 'held'
    when facts.paused then 'paused'
    when facts.installed then 'installed'
    when facts.backoff_until > clock_timestamp() and facts.backoff_kind = 'snooze' then 'snoozed'
    when facts.backoff_until > clock_timestamp() then 'backoff'
    else 'pending'
  end as state,
  backoff.code,
  backoff.cause,
  history.attempts,
  case when not facts.started and not facts.held and not facts.paused and not facts.installed
    then greatest(jobs.next_run_at, facts.backoff_until)
  end as next_attempt_at,
  started.agent_started_at
from bmdb.machines as machine
left join bmdb.machine_provided as provided on provided.machine_id = machine.machine_id
left join bmdb.takeover_facts as facts on facts.machine_id = machine.machine_id
left join bmdb.machine_agent_started as started on started.machine_id = machine.machine_id
left join bmdb.work_backoff as backoff
  on backoff.machine_id = machine.machine_id and backoff.process = 'takeover'
left join (
  select
    job.machine_id,
    min(job.run_at) as next_run_at
  from bmdb.takeover_jobs as job
  where job.locked_at is null and job.retries_left
  group by job.machine_id
) as jobs on jobs.machine_id = machine.machine_id
left join (select distinct running.machine_id from bmdb.work as running) as work
  on work.machine_id = machine.machine_id
left join lateral (
  select count(*) as attempts
  from bmdb.work_history as event
  where event.machine_id = machine.machine_id and event.event = 'Started'
) as history on true;
