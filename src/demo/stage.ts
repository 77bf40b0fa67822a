import { randomBytes, randomInt } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type OperatorDatabase, openDatabase, serverVersion } from "../bmdb/operator-database.js";
import type { ProvidedRow } from "../bmdb/provide-machines.js";
import { createWorkerLogins, type WorkerLogin } from "../bmdb/worker-logins.js";
import { databaseLabel } from "../config/database-url.js";
import { PACKAGE_ROOT } from "../config/package-root.js";
import { createKeyPair } from "../ssh/keygen.js";
import { migrate } from "../worker/migrate.js";
import { JOURNAL, startCleanUpProcess } from "./clean-up.js";
import type { DemoOptions } from "./demo-run.js";
import type { DemoView } from "./demo-view.js";
import { startEmbeddedPostgres } from "./embedded-postgres.js";
import { rowOf } from "./fleet.js";
import { startFleetProcess } from "./fleet-process.js";
import { machinesIn, readJournal } from "./journal.js";
import { planMachines } from "./machine-plan.js";
import { type Replica, startReplica } from "./replica.js";

/** What a demo has to do with. */
export interface DemoContext {
  /** How `takeover` is started: node and its main file. */
  readonly takeover: readonly string[];
  /** What its processes find in their environment. */
  readonly environment: Readonly<Record<string, string>>;
  readonly view: DemoView;
  readonly stop: AbortSignal;
  /** Aborted when there is no time for a clean end of the workers. */
  readonly stopNow: AbortSignal;
}

/** All that a demo plays on: a migrated database, machines that nobody knows yet, workers that wait. */
export interface Stage {
  readonly database: OperatorDatabase;
  /** How to reach it by hand. Without the password where it is somebody else's. */
  readonly databaseShown: string;
  /** The machines, as they are to be inserted. */
  readonly rows: readonly ProvidedRow[];
  readonly replicas: readonly Replica[];
  readonly journal: string;
  /** The private key that opens the machines. */
  readonly sshKey: string;
  /** What became of a worker that ended unasked, in a sentence. */
  lostReplica(): string | null;
  /** Takes everything down again: workers, machines, database, files. */
  close(): Promise<void>;
}

/** Attempts at once per worker, and its connections beside those; see the worker's pools. */
const CONNECTIONS_PER_WORKER = 20;
/** Under which three faulty machines of 25 are three that tell a lot, and none that makes the demo wait. */
const OWN_SEED = 10;

/** The file that tsc makes of reference-agent.ts: it is uploaded, so it must be the compiled one. */
const AGENT = path.join(PACKAGE_ROOT, "dist", "src", "demo", "reference-agent.js");

/** Sets everything up, telling each part when it stands. What was begun is taken down if it fails. */
export async function openStage(options: DemoOptions, context: DemoContext): Promise<Stage> {
  const { view, stop, stopNow, takeover, environment } = context;
  const folder = mkdtempSync(path.join(tmpdir(), "takeover-demo-"));
  // On a database of somebody else, so that two demos do not have the same machines.
  const seed = options.databaseUrl === null ? OWN_SEED : randomInt(1, 100_000);
  const logins = makeLogins(options.workers);
  const endings: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    // In turn, the last begun first, and each whatever became of the others.
    const failures: unknown[] = [];
    for (let end = endings.pop(); end !== undefined; end = endings.pop()) {
      await end().catch((error: unknown) => failures.push(error));
    }
    if (failures.length > 0) {
      throw failures[0];
    }
  };
  const part = async <T>(name: string, begin: () => Promise<T>, tell: (it: T) => string) => {
    stop.throwIfAborted();
    const begun = performance.now();
    view.begins(name);
    const it = await begin();
    view.stands(name, tell(it), performance.now() - begun);
    return it;
  };
  try {
    const cleanUp = startCleanUpProcess(
      [...takeover, "clean-up-demo", folder, ...logins.map(({ name }) => name)],
      options.databaseUrl === null
        ? environment
        : { ...environment, DATABASE_URL: options.databaseUrl },
    );
    endings.push(() => cleanUp.finish());
    const sshKey = path.join(folder, "key");
    createKeyPair(sshKey, "takeover demo");

    const { database, databaseUrl } = await part(
      "postgres",
      async () => {
        const url = options.databaseUrl ?? (await startOwn(options.workers, endings));
        const pool = openDatabase(url);
        endings.push(() => pool.end());
        const version = await serverVersion(pool);
        await migrate(url);
        await createWorkerLogins(pool, logins);
        return { database: pool, databaseUrl: url, version };
      },
      (it) => `${it.version}, ${databaseLabel(it.databaseUrl)}, migrated`,
    );
    const journal = path.join(folder, JOURNAL);
    const rows = await part(
      "fleet",
      async () => {
        const fleet = await startFleetProcess(
          [
            ...takeover,
            "fleet",
            `--machines=${options.machines}`,
            `--faulty=${options.faulty}`,
            `--seed=${seed}`,
            `--authorized-key=${sshKey}.pub`,
            `--journal=${journal}`,
          ],
          { ...environment, TMPDIR: folder },
          path.join(folder, "fleet.log"),
        );
        endings.push(() => fleet.stop());
        stopNow.addEventListener("abort", () => fleet.kill());
        return rowsOf(options, seed, journal);
      },
      (it) =>
        `${it.length} SSH server${it.length === 1 ? "" : "s"} on 127.0.0.1, ${options.faulty} faulty`,
    );
    const replicas: Replica[] = [];
    endings.push(async () => {
      await Promise.all(replicas.map((replica) => replica.process.stop()));
    });
    stopNow.addEventListener("abort", () => {
      for (const { process } of replicas) {
        process.kill();
      }
    });
    await part(
      "workers",
      async () => {
        const starting = logins.map(async (login, index) => {
          const number = index + 1;
          replicas.push(
            await startReplica({
              number,
              takeover,
              flags: workerFlags(sshKey),
              environment: { ...environment, DATABASE_URL: urlAs(databaseUrl, login) },
              log: path.join(folder, `worker-${number}.log`),
            }),
          );
        });
        await Promise.allSettled(starting);
        await Promise.all(starting);
        return replicas.sort((a, b) => a.number - b.number);
      },
      (it) =>
        it.length === 1 ? "1 process" : `${it.length} processes, each with a login of its own`,
    );
    let lost: string | null = null;
    for (const { number, process } of replicas) {
      process.ended.then((code) => {
        lost ??= `replica ${number} ended unasked, with exit code ${code}`;
      });
    }
    return {
      database,
      databaseShown:
        options.databaseUrl === null ? databaseUrl : `postgres://${databaseLabel(databaseUrl)}`,
      rows,
      replicas,
      journal,
      sshKey,
      lostReplica: () => lost,
      close,
    };
  } catch (error) {
    await close().catch((later: unknown) => view.trouble(later));
    throw error;
  }
}

async function startOwn(workers: number, endings: (() => Promise<void>)[]): Promise<string> {
  const connections = Math.max(100, 20 + workers * CONNECTIONS_PER_WORKER);
  const postgres = await startEmbeddedPostgres({ max_connections: String(connections) });
  endings.push(() => postgres.stop());
  return postgres.url();
}

/** Roles belong to a whole server, so their names must be like no other demo's. */
function makeLogins(count: number): WorkerLogin[] {
  const demo = randomBytes(4).toString("hex");
  return Array.from({ length: count }, (_, index) => ({
    name: `takeover_demo_${demo}_${index + 1}`,
    password: randomBytes(16).toString("hex"),
  }));
}

/** The machines' rows: what was planned, at the ports that the fleet wrote down. */
function rowsOf({ machines, faulty }: DemoOptions, seed: number, journal: string): ProvidedRow[] {
  const ports = new Map(
    machinesIn(readJournal(journal)).map(({ machineId, port }) => [machineId, port]),
  );
  return planMachines({ machines, faulty, seed }).map((plan) =>
    rowOf({ ...plan, port: ports.get(plan.machineId) ?? 0 }),
  );
}

function workerFlags(sshKey: string): string[] {
  return [
    `--agent-executable-path=${AGENT}`,
    "--agent-endpoint=control.example:8443",
    `--ssh-key-path=${sshKey}`,
    // A machine that says nothing is given up sooner than on a real network.
    "--ssh-handshake-timeout=5s",
  ];
}

/** The same database as another role. */
function urlAs(databaseUrl: string, { name, password }: WorkerLogin): string {
  // Without a host, as for a socket, a URL cannot hold a user; parameters go before it anyway.
  const url = new URL(databaseUrl.replace(/^(\w+:\/\/)[^/?#]*@(?=\/)/, "$1"));
  url.searchParams.set("user", name);
  url.searchParams.set("password", password);
  return url.href;
}
