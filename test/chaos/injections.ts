import type { Random } from "./random.js";
import type { Replica } from "./replica.js";

/** What may be done to, as an injection sees it. */
export interface World {
  readonly random: Random;
  readonly replicas: readonly Replica[];
  /** Provided machines that are to be taken over in the end. */
  readonly machines: readonly ChaosMachine[];
  /** Machines that are reached through a relay of their own, which can be cut. */
  readonly relayed: readonly { cut(): void }[];
  sql(text: string, values?: unknown[]): Promise<Record<string, unknown>[]>;
  restartPostgres(how: "fast" | "immediate"): Promise<void>;
  /** Does something a while later, or at the end at the latest. */
  later(ms: number, act: () => Promise<void>): void;
}

export interface ChaosMachine {
  readonly machineId: string;
  readonly port: number;
}

type Inject = (world: World) => Promise<unknown>;

const machine = ({ random, machines }: World) => random.pick(machines).machineId;
const some = (world: World) =>
  Array.from({ length: 1 + world.random.below(20) }, () => machine(world));

const LOCKED_TABLES = [
  "bmdb.machines",
  "bmdb.machine_provided",
  "bmdb.machine_agent_started",
  "bmdb.work_history",
  "bmdb.work_backoff",
  "bmdb.sessions",
  "graphile_worker._private_jobs",
];

/** Everything that happens to the installation, with how often compared with the others. */
export const INJECTIONS: Readonly<Record<string, readonly [weight: number, inject: Inject]>> = {
  "replica killed": [5, async ({ random, replicas }) => random.pick(replicas).signal("SIGKILL")],
  "replica restarted": [5, async ({ random, replicas }) => random.pick(replicas).signal("SIGTERM")],
  "replica frozen beyond its deadline": [
    3,
    async ({ random, replicas, later }) => {
      const replica = random.pick(replicas);
      replica.signal("SIGSTOP");
      later(14_000 + random.below(4_000), async () => replica.signal("SIGCONT"));
    },
  ],
  "backends terminated": [
    6,
    ({ sql, random }) =>
      sql(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and application_name like 'takeover %' and random() < $1`,
        [0.1 + random.next() * 0.4],
      ),
  ],
  "Postgres restarted fast": [1, ({ restartPostgres }) => restartPostgres("fast")],
  "Postgres restarted immediately": [1, ({ restartPostgres }) => restartPostgres("immediate")],
  "replica cut from Postgres": [
    4,
    async ({ random, replicas, later }) => {
      const { proxy } = random.pick(replicas);
      await proxy.away();
      later(500 + random.below(5_000), () => proxy.back());
    },
  ],
  "replica's packets to Postgres swallowed": [
    2,
    async ({ random, replicas, later }) => {
      const { proxy } = random.pick(replicas);
      proxy.stall();
      later(1_000 + random.below(9_000), () => proxy.back());
    },
  ],
  "replica's Postgres slow": [
    2,
    async ({ random, replicas, later }) => {
      const { proxy } = random.pick(replicas);
      proxy.slow(100 + random.below(900));
      later(2_000 + random.below(8_000), async () => proxy.slow(0));
    },
  ],
  // For longer than the lock_timeout of those who want to write there, at times.
  "table locked": [
    3,
    async ({ random, sql, later }) => {
      const table = random.pick(LOCKED_TABLES);
      const seconds = 0.5 + random.next() * 9;
      later(0, async () => {
        await sql(
          `do $$ begin lock table ${table} in access exclusive mode; perform pg_sleep(${seconds}); end $$`,
        ).catch((error: { code?: string }) => {
          // Restarts end it, and after enough of them it is given up; a wrong statement is a fault of ours.
          if (error.code?.startsWith("42")) {
            throw error;
          }
        });
      });
    },
  ],
  "connections to machines cut": [
    6,
    async ({ random, relayed }) => {
      for (const relay of relayed) {
        if (random.next() < 0.5) {
          relay.cut();
        }
      }
    },
  ],
  "live session reaped": [
    4,
    async ({ sql }) => {
      await sql(
        `update bmdb.sessions set deadline = clock_timestamp() - interval '1 second'
         where session_id = (select session_id from bmdb.sessions order by random() limit 1)`,
      );
      await sql("select bmdb.reap_sessions()");
    },
  ],
  "operator asks": [
    8,
    (world) => world.sql("select bmdb.enqueue_takeovers($1::uuid[])", [some(world)]),
  ],
  "operator holds, and releases": [
    5,
    async (world) => {
      const held = machine(world);
      await world.sql("select bmdb.hold_takeover($1, 'chaos')", [held]);
      world.later(500 + world.random.below(6_000), async () => {
        await world.sql("select bmdb.release_takeover($1)", [held]);
      });
    },
  ],
  "address spoilt, and corrected": [
    5,
    async (world) => {
      const { machineId, port } = world.random.pick(world.machines);
      const move = (to: number) =>
        world.sql("update bmdb.machine_provided set ssh_port = $2 where machine_id = $1", [
          machineId,
          to,
        ]);
      await move(1);
      world.later(300 + world.random.below(4_000), async () => {
        await move(port);
      });
    },
  ],
  "machine taken back, and provided anew": [
    5,
    async (world) => {
      const [row] = await world.sql(
        "delete from bmdb.machine_provided where machine_id = $1 returning *",
        [machine(world)],
      );
      if (row !== undefined) {
        world.later(100 + world.random.below(3_000), async () => {
          await world.sql(
            `insert into bmdb.machine_provided
               (machine_id, provider, provider_id, provider_ip_address, ssh_port)
             values ($1, $2, $3, $4, $5)`,
            [row.machine_id, row.provider, row.provider_id, row.provider_ip_address, row.ssh_port],
          );
        });
      }
    },
  ],
  "agents wanted anew": [
    8,
    (world) =>
      world.sql("delete from bmdb.machine_agent_started where machine_id = any ($1::uuid[])", [
        some(world),
      ]),
  ],
  "raw job without key": [
    4,
    (world) =>
      world.sql(
        "select graphile_worker.add_job('takeover', json_build_object('machineId', $1::text))",
        [machine(world)],
      ),
  ],
  "raw job with key": [
    4,
    (world) =>
      world.sql(
        "select graphile_worker.add_job('takeover', json_build_object('machineId', $1::text), job_key => 'takeover:' || $1)",
        [machine(world)],
      ),
  ],
  "raw job with rubbish": [
    2,
    ({ sql }) => sql(`select graphile_worker.add_job('takeover', '{"machineId": "rubbish"}')`),
  ],
  sweep: [2, ({ sql }) => sql("select bmdb.sweep_takeovers()")],
};

/** One of each kind first, then by weight: the order follows from the seed. */
export function planInjections(count: number, random: Random): string[] {
  const names = Object.keys(INJECTIONS);
  const lots = names.flatMap((name) => Array<string>(INJECTIONS[name]?.[0] ?? 0).fill(name));
  const once = [...names];
  const plan: string[] = [];
  while (plan.length < count) {
    const next = once.length > 0 ? once.splice(random.below(once.length), 1)[0] : random.pick(lots);
    plan.push(next ?? random.pick(lots));
  }
  return plan;
}
