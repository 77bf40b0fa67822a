import { randomUUID } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createKeyPair } from "../../src/ssh/keygen.js";
import { writeJournalingAgent } from "./journaling-agents.js";
import { createDatabase, type TestDatabase } from "./postgres.js";
import { SSH_USER, type Sshd, startSshd } from "./sshd.js";
import { startWorker, type WorkerProcess } from "./worker-process.js";

/** A database, an OpenSSH server behind which all machines are, an agent that keeps a journal, and workers. */
export interface Installation {
  readonly folder: string;
  readonly journal: string;
  /** The workers' key, as a line of authorized_keys. */
  readonly publicLine: string;
  readonly database: TestDatabase;
  readonly sshd: Sshd;
  /** Starts a worker process under the role takeover_worker and waits until it is ready. */
  worker(...flags: string[]): Promise<WorkerProcess>;
  /** Provides machines in one statement, as an operator would; gives their ids by provider id. */
  provide(
    providerIds: readonly string[],
    row?: { port?: number; ids?: readonly string[] },
  ): Promise<Map<string, string>>;
  provideOne(providerId: string, row?: { port?: number }): Promise<string>;
  /** What the agents wrote down, in order. */
  runs(): Promise<Run[]>;
  keys(): Promise<{ machine_id: string; key: string }[]>;
  /** The machine's agent key on record, hex. */
  started(machineId: string): Promise<string | undefined>;
  history(machineId: string): Promise<string[]>;
  state(machineId: string): Promise<string | undefined>;
  jobs(): Promise<{ locked_at: Date | null; due: boolean }[]>;
  /** What lies beside the agent on the machine. */
  temporaryFiles(): Promise<string[]>;
  remove(): Promise<void>;
}

export interface Run {
  readonly what: string;
  readonly machineId: string;
}

/**
 * `through` puts something between the workers and their database: it changes the URL they are given.
 * `server` is the URL of another server than the run's, up to the database's name.
 */
export async function createInstallation(
  through: (databaseUrl: string) => string = (url) => url,
  server?: string,
): Promise<Installation> {
  const folder = await mkdtemp(path.join(tmpdir(), "takeover-e2e-"));
  const target = path.join(folder, "machine", "agent");
  const journal = path.join(folder, "journal");
  const workers: WorkerProcess[] = [];
  const database = await createDatabase({ server });
  const publicLine = createKeyPair(path.join(folder, "key"), "test");
  await writeJournalingAgent(path.join(folder, "agent"), journal, path.join(folder, "agent-keys"));
  const sshd = await startSshd({ authorize: () => publicLine });

  const site: Installation = {
    folder,
    journal,
    publicLine,
    database,
    sshd,
    async worker(...flags) {
      const started = await startWorker({
        databaseUrl: through(await database.urlAs("takeover_worker")),
        executable: path.join(folder, "agent"),
        targetPath: target,
        sshKeyPath: path.join(folder, "key"),
        sshUser: SSH_USER,
        flags,
      });
      workers.push(started);
      return started;
    },
    async provide(providerIds, row = {}) {
      const ids = row.ids ?? providerIds.map(() => randomUUID());
      await database.query("insert into bmdb.machines (machine_id) select unnest($1::uuid[])", [
        ids,
      ]);
      await database.query(
        `insert into bmdb.machine_provided (machine_id, provider, provider_id, provider_ip_address, ssh_port)
         select machine_id, 'static', provider_id, '127.0.0.1', $3
         from unnest($1::uuid[], $2::text[]) as m (machine_id, provider_id)`,
        [ids, providerIds, row.port ?? sshd.port],
      );
      return new Map(providerIds.map((providerId, n) => [providerId, ids[n] ?? ""]));
    },
    async provideOne(providerId, row) {
      return (await site.provide([providerId], row)).get(providerId) ?? "";
    },
    async runs() {
      const lines = (await readFile(journal, "utf8").catch(() => "")).trim().split("\n");
      return lines.filter(Boolean).map((line) => {
        const [what = "", machineId = ""] = line.split(" ");
        return { what, machineId };
      });
    },
    keys: () =>
      database.query<{ machine_id: string; key: string }>(
        "select machine_id, encode(agent_public_key, 'hex') as key from bmdb.machine_agent_started",
      ),
    async started(machineId) {
      return (await site.keys()).find((row) => row.machine_id === machineId)?.key;
    },
    async history(machineId) {
      const rows = await database.query<{ event: string }>(
        "select event from bmdb.work_history where machine_id = $1 order by history_id",
        [machineId],
      );
      return rows.map(({ event }) => event);
    },
    async state(machineId) {
      const [row] = await database.query<{ state: string }>(
        "select state from bmdb.machine_status where machine_id = $1",
        [machineId],
      );
      return row?.state;
    },
    jobs: () =>
      database.query<{ locked_at: Date | null; due: boolean }>(
        "select locked_at, run_at <= clock_timestamp() as due from graphile_worker.jobs",
      ),
    async temporaryFiles() {
      const names = await readdir(path.dirname(target)).catch(() => []);
      return names.filter((name) => name !== "agent");
    },
    async remove() {
      await Promise.all(workers.map((worker) => worker.stop("SIGKILL")));
      for (const { what } of await site.runs()) {
        if (what.startsWith("child:")) {
          endChild(Number(what.slice("child:".length)));
        }
      }
      await sshd.stop();
      await database.drop();
      await rm(folder, { recursive: true, force: true });
    },
  };
  return site;
}

/** For tests that run beside others of their file: an installation of their own, removed afterwards. */
export async function withInstallation(
  act: (site: Installation) => Promise<void>,
  through?: (databaseUrl: string) => string,
): Promise<void> {
  const site = await createInstallation(through);
  try {
    await act(site);
  } finally {
    await site.remove();
  }
}

function endChild(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}
