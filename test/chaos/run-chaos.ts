import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { PACKAGE_ROOT } from "../../src/config/package-root.js";
import { startEmbeddedPostgres } from "../../src/demo/embedded-postgres.js";
import { startFleetProcess } from "../../src/demo/fleet-process.js";
import { machinesIn, readJournal } from "../../src/demo/journal.js";
import { createKeyPair } from "../../src/ssh/keygen.js";
import { migrate } from "../../src/worker/migrate.js";
import { createPostgresProxy } from "../support/postgres-proxy.js";
import { freePort } from "../support/sshd.js";
import { waitFor } from "../support/wait.js";
import { TAKEOVER } from "../support/worker-process.js";
import { INJECTIONS, planInjections, type World } from "./injections.js";
import { createRandom } from "./random.js";
import { Replica } from "./replica.js";
import { judge, type Verdict, WORKERS_CONNECTIONS } from "./verdicts.js";

export interface ChaosOptions {
  readonly seed: number;
  readonly machines: number;
  /** Of them, how many are faulty in themselves. */
  readonly faulty: number;
  readonly replicas: number;
  readonly injections: number;
  /** Pause between two injections, on average. */
  readonly everyMs: number;
  /** One machine in so many is reached through a relay that can be cut. */
  readonly relayEvery: number;
}

export interface ChaosReport extends Verdict {
  readonly injected: Readonly<Record<string, number>>;
  readonly seconds: number;
  /** Where the replicas' logs and the fleet's journal are kept; null after a run without violations. */
  readonly kept: string | null;
}

const QUIET_DEADLINE_MS = 240_000;

/**
 * Real workers, a real Postgres, simulated machines, and everything going wrong at random, the same for the
 * same seed (as far as the machine's scheduler allows). Then it is quiet, and all must be well.
 */
export async function runChaos(options: ChaosOptions): Promise<ChaosReport> {
  const begun = Date.now();
  const random = createRandom(options.seed);
  const folder = await mkdtemp(path.join(tmpdir(), "takeover-chaos-"));
  const ends: (() => Promise<unknown> | unknown)[] = [];
  let clean = false;
  try {
    const postgres = await startEmbeddedPostgres({ max_connections: "200" });
    ends.push(() => postgres.stop());
    await migrate(postgres.url());
    const admin = new pg.Pool({ connectionString: postgres.url(), max: 5 });
    admin.on("error", () => undefined);
    ends.push(() => admin.end());
    const sql: World["sql"] = (text, values) =>
      persistently(async () => (await admin.query(text, values)).rows);
    await sql("create role chaos login password 'chaos' in role takeover_worker");

    const keyPath = path.join(folder, "key");
    createKeyPair(keyPath, "chaos");
    const agent = path.join(PACKAGE_ROOT, "dist", "src", "demo", "reference-agent.js");
    const journalPath = path.join(folder, "journal");
    const fleet = await startFleetProcess(
      [
        process.execPath,
        TAKEOVER,
        "fleet",
        `--machines=${options.machines}`,
        `--faulty=${options.faulty}`,
        `--seed=${options.seed}`,
        `--authorized-key=${keyPath}.pub`,
        `--journal=${journalPath}`,
        `--in-process-agent=${agent}`,
        "--latency=5ms",
      ],
      { PATH: process.env.PATH ?? "" },
      path.join(folder, "fleet.log"),
    );
    ends.push(() => fleet.stop());

    const relayed: { cut(): void }[] = [];
    const machines: { machineId: string; port: number; sound: boolean }[] = [];
    for (const [index, machine] of machinesIn(readJournal(journalPath)).entries()) {
      let { port } = machine;
      if (index % options.relayEvery === 0 && machine.fault === null) {
        const relay = await createPostgresProxy(`tcp://127.0.0.1:${port}`);
        ends.push(() => relay.close());
        relayed.push({ cut: () => void relay.away().then(() => relay.back()) });
        port = Number(new URL(relay.through("http://127.0.0.1:1")).port);
      }
      machines.push({ machineId: machine.machineId, port, sound: machine.fault === null });
    }
    await sql("insert into bmdb.machines (machine_id) select unnest($1::uuid[])", [
      machines.map(({ machineId }) => machineId),
    ]);

    const replicas: Replica[] = [];
    for (let n = 0; n < options.replicas; n++) {
      const proxy = await createPostgresProxy(postgres.url());
      ends.push(() => proxy.close());
      const url = new URL(proxy.through(postgres.url()));
      url.username = "chaos";
      url.password = "chaos";
      const replica = new Replica(
        [
          process.execPath,
          TAKEOVER,
          "worker",
          `--agent-executable-path=${agent}`,
          "--agent-endpoint=control.example:8443",
          `--ssh-key-path=${keyPath}`,
          "--ssh-handshake-timeout=5s",
          "--shutdown-grace=3s",
          "--concurrency=10",
          `--http-port=${await freePort()}`,
          "--log-level=warn",
        ],
        { ...process.env, DATABASE_URL: url.href },
        path.join(folder, `replica-${n}.log`),
        proxy,
      );
      replica.start();
      ends.push(() => replica.stop(20_000).catch(() => undefined));
      replicas.push(replica);
    }

    const pending = new Set<{ act: () => Promise<void> }>();
    const world: World = {
      random,
      replicas,
      machines: machines.filter(({ sound }) => sound),
      relayed,
      sql,
      restartPostgres: (how) => postgres.restart(how),
      later(ms, act) {
        const entry = { act };
        pending.add(entry);
        setTimeout(() => {
          if (pending.delete(entry)) {
            void act();
          }
        }, ms);
      },
    };
    const injected = await storm(options, world, machines);
    for (const entry of pending) {
      await entry.act();
    }
    pending.clear();
    const sound = world.machines.map(({ machineId }) => machineId);
    await calm(sql, sound, replicas);
    for (const replica of replicas) {
      await replica.stop(20_000);
      replica.proxy.dropStalled();
    }
    // The server notices a little later that a connection has ended; what stays is for the verdict to tell.
    await waitFor(
      "the server has let go of the workers",
      async () => (await sql(WORKERS_CONNECTIONS)).length === 0,
    ).catch(() => undefined);
    const verdict = await judge(sql, readJournal(journalPath), sound);
    clean = verdict.violations.length === 0;
    return {
      ...verdict,
      injected,
      seconds: Math.round((Date.now() - begun) / 1000),
      kept: clean ? null : folder,
    };
  } catch (error) {
    throw new Error(`the chaos run with seed ${options.seed} broke; see ${folder}`, {
      cause: error,
    });
  } finally {
    for (const end of ends.reverse()) {
      await end();
    }
    if (clean) {
      await rm(folder, { recursive: true, force: true });
    }
  }
}

/** Provides the machines bit by bit and injects what the plan says; gives how often each. */
async function storm(
  options: ChaosOptions,
  world: World,
  machines: readonly { machineId: string; port: number }[],
): Promise<Record<string, number>> {
  const plan = planInjections(options.injections, world.random);
  const injected: Record<string, number> = {};
  const perStep = Math.ceil(machines.length / plan.length);
  for (const [step, name] of plan.entries()) {
    const fresh = machines.slice(step * perStep, (step + 1) * perStep);
    await world.sql(
      `insert into bmdb.machine_provided
         (machine_id, provider, provider_id, provider_ip_address, ssh_port)
       select machine_id, 'static', machine_id, '127.0.0.1', port
       from unnest($1::uuid[], $2::integer[]) as fresh (machine_id, port)`,
      [fresh.map(({ machineId }) => machineId), fresh.map(({ port }) => port)],
    );
    await INJECTIONS[name]?.[1](world);
    injected[name] = (injected[name] ?? 0) + 1;
    await delay(world.random.next() * 2 * options.everyMs);
  }
  return injected;
}

/** Nothing goes wrong any more: operators ask for what failed until all sound machines have their key. */
async function calm(
  sql: World["sql"],
  sound: readonly string[],
  replicas: readonly Replica[],
): Promise<void> {
  await sql("select bmdb.release_takeover(machine_id) from bmdb.machine_hold");
  let asked = 0;
  await waitFor(
    `${sound.length} machines have their key, and nothing runs`,
    async () => {
      if (Date.now() - asked > 5_000) {
        asked = Date.now();
        await sql(
          `select bmdb.enqueue_takeovers(array(
             select machine_id from bmdb.work_backoff
             where machine_id = any ($1::uuid[]) and until > clock_timestamp() + interval '2 seconds'
               and machine_id not in (select machine_id from bmdb.work)
           ))`,
          [sound],
        );
      }
      const [row] = await sql(
        `select (select count(*) from bmdb.machine_agent_started where machine_id = any ($1::uuid[]))::integer as keys,
                (select count(*) from graphile_worker.jobs
                 where locked_at is not null or run_at <= now())::integer as busy,
                array(select substring(runtime_info from 'process (\\d+)')::integer from bmdb.sessions
                      order by 1) as workers`,
        [sound],
      );
      // Sessions of those that died are reaped as well, and each replica that lives has its own: by their number
      // alone a dead one's would pass for that of one which is just starting.
      const workers = replicas.map(({ pid }) => pid ?? 0).sort((one, other) => one - other);
      return (
        Number(row?.keys) === sound.length &&
        Number(row?.busy) === 0 &&
        String(row?.workers) === String(workers)
      );
    },
    QUIET_DEADLINE_MS,
  );
}

/** Over restarts of the server, which the storm makes itself. */
async function persistently<T>(act: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + 30_000;
  for (;;) {
    try {
      return await act();
    } catch (error) {
      // SQLSTATEs of a server that goes or comes, and a socket's own codes; others are faults of the test.
      const code = (error as { code?: string }).code ?? "";
      const passing = code === "" || /^(57P0|08|40P01|55P03|E)/.test(code);
      if (!passing || Date.now() > deadline) {
        throw error;
      }
      await delay(100);
    }
  }
}
