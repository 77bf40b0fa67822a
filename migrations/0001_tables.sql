-- One table per fact known about a machine, so that several programs can each own a fact: inventory writes
-- machines and machine_provided, an installer the two installation tables, operators the hold, and the
-- takeover workers the result. Facts of others restrict the deletion of a machine; what the takeover merely
-- noted for itself goes with it.

create table bmdb.machines (
  machine_id uuid primary key default gen_random_uuid(),
  machine_created_at timestamptz not null default clock_timestamp()
);

create table bmdb.machine_provided (
  machine_id uuid primary key references bmdb.machines on delete restrict,
  provider text not null constraint provider_is_named check (provider <> ''),
  provider_id text not null constraint provider_id_has_1_to_128_characters
    check (length(provider_id) between 1 and 128),
  provider_reservation_id text constraint provider_reservation_id_has_at_most_128_characters
    check (length(provider_reservation_id) <= 128),
  -- Text, not inet: what a provider's program wrote is kept, and the attempt says what is wrong with it.
  provider_ip_address text constraint provider_ip_address_has_at_most_128_characters
    check (length(provider_ip_address) <= 128),
  provider_location text constraint provider_location_has_at_most_128_characters
    check (length(provider_location) <= 128),
  provider_status text constraint provider_status_is_known
    check (provider_status in
      ('Missing', 'Provisioning', 'ProvisioningFailedPermanent', 'Running', 'Stopped', 'Unknown')),
  ssh_port integer constraint ssh_port_is_1_to_65535 check (ssh_port between 1 and 65535),
  ssh_user text constraint ssh_user_has_1_to_32_characters check (length(ssh_user) between 1 and 32),
  ssh_host_key text constraint ssh_host_key_is_type_and_base64
    check (ssh_host_key ~ '^[a-z0-9@.-]+ [A-Za-z0-9+/]+=*$'),
  unique (provider, provider_id)
);

-- The result: the agent runs on the machine, and this is its Ed25519 public key.
create table bmdb.machine_agent_started (
  machine_id uuid primary key references bmdb.machines on delete restrict,
  agent_started_at timestamptz not null default clock_timestamp(),
  agent_public_key bytea not null unique constraint agent_public_key_has_32_bytes
    check (octet_length(agent_public_key) = 32)
);

-- What the machine showed at its takeover.
create table bmdb.machine_ssh_host_key (
  machine_id uuid primary key references bmdb.machines on delete cascade,
  host_key text not null constraint host_key_is_type_and_base64
    check (host_key ~ '^[a-z0-9@.-]+ [A-Za-z0-9+/]+=*$'),
  first_seen_at timestamptz not null default clock_timestamp()
);

-- Set and lifted by operators alone, never by an attempt.
create table bmdb.machine_hold (
  machine_id uuid primary key references bmdb.machines on delete cascade,
  reason text not null,
  held_at timestamptz not null default clock_timestamp()
);

create table bmdb.provider_pause (
  provider text primary key,
  reason text not null,
  paused_at timestamptz not null default clock_timestamp()
);

create table bmdb.machine_os_installation_request (
  machine_id uuid primary key references bmdb.machines on delete restrict,
  generation bigint not null,
  os_installation_request_raw bytea not null
);

create table bmdb.machine_os_installation_report (
  machine_id uuid primary key references bmdb.machines on delete restrict,
  generation bigint not null,
  os_installation_result text not null constraint os_installation_result_is_known
    check (os_installation_result in ('Success', 'Error')),
  os_installation_report_raw bytea not null
);

-- A worker's registration, kept alive by heartbeats: who stands behind locked_by of a job.
create table bmdb.sessions (
  session_id uuid primary key,
  component_name text not null,
  runtime_info text not null,
  pool_id text not null unique,
  created_at timestamptz not null default clock_timestamp(),
  interval_seconds integer not null,
  deadline timestamptz not null
);

-- The audit trail. No foreign key: it outlives the machine.
create table bmdb.work_history (
  history_id bigint generated always as identity primary key,
  machine_id uuid not null,
  process text not null constraint process_is_known check (process in ('takeover')),
  event text not null constraint event_is_known
    check (event in ('Started', 'Finished', 'Failed', 'Canceled')),
  at timestamptz not null default clock_timestamp(),
  failed_cause text,
  code text,
  step text,
  session_id uuid,
  job_id bigint,
  duration interval,
  -- What the agent wanted the operator to know though it runs.
  warnings text[]
);
create index work_history_by_machine on bmdb.work_history (machine_id, history_id);
create index work_history_by_time on bmdb.work_history (at);

-- Not before `until`: after a failure, without blame (snooze), or ended because an operator asked.
create table bmdb.work_backoff (
  machine_id uuid not null references bmdb.machines on delete cascade,
  process text not null constraint process_is_known check (process in ('takeover')),
  kind text not null constraint kind_is_known check (kind in ('failure', 'snooze', 'asked')),
  until timestamptz not null,
  cause text,
  code text,
  -- Before jitter; null after an ask: the next failure begins with its class's first figure.
  last_interval_seconds double precision,
  primary key (machine_id, process)
);

-- When a worker last took a turn at what any of them does for all: see src/bmdb/upkeep-turn.ts.
create table bmdb.upkeep_turn (
  duty text primary key,
  begun_at timestamptz not null
);
