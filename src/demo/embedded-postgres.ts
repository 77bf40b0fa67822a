import { type ChildProcessByStdio, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chown, readFile, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import type { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { freePort, isListening } from "./free-port.js";
import { type RunAs, shippedBinaries, usableBinaries, userForServer } from "./postgres-binaries.js";

/** A real Postgres server of our own, with a private data folder, port and password. */
export interface EmbeddedPostgres {
  readonly port: number;
  /** Superuser's connection URL for a database (default `postgres`). */
  url(database?: string): string;
  /** Ends the server as `pg_ctl --mode` would, and starts it again on the same port and data. */
  restart(mode: "fast" | "immediate"): Promise<void>;
  /** Stops the server and removes its folder; may be called more than once. */
  stop(): Promise<void>;
}

type Keeper = ChildProcessByStdio<Writable, Readable, null>;

const START_DEADLINE_MS = 30_000;
const STOP_DEADLINE_MS = 20_000;
const PORT_TRIES = 3;

/**
 * Makes the folder and has it, makes the data in it and runs the server, for as long as somebody holds the other end of
 * its standard input: so all of it goes however its owner ends, SIGKILL included, and whenever. `$1` is the
 * folder, the rest are the server's arguments. Told line by line: the folder of the binaries, whereupon it
 * initialises and answers `initdb` with the exit code; then a port to start on, and another if that was taken.
 *
 * A server that does not stop within ten seconds is told to drop everything. Whatever is left of the keeper's
 * own process group goes at the end; PIPE is ignored, for it says things to an owner that may be gone.
 */
const KEEPER = `
trap '' PIPE
folder=$1; shift
mkdir -m 700 "$folder" && cd "$folder" || exit 1
echo made
server=
if IFS= read -r bin; then
  "$bin/initdb" --pgdata="$folder/data" --username=postgres --pwfile="$folder/password" \
    --auth=scram-sha-256 --encoding=UTF8 --locale=C --no-sync >"$folder/log" 2>&1 </dev/null
  echo "initdb $?"
  while read -r port; do
    "$bin/postgres" -D "$folder/data" -p "$port" "$@" >"$folder/log-$port" 2>&1 </dev/null &
    server=$!
  done
fi
if [ -n "$server" ]; then
  kill -INT "$server" 2>/dev/null
  { sleep 10; kill -QUIT "$server"; } >/dev/null 2>&1 &
  wait "$server"
fi
cd / && rm -rf "$folder"
trap '' TERM
kill -TERM 0
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
  const shipped = await shippedBinaries();
  const runAs = await userForServer();
  const name = `takeover-postgres-${randomBytes(6).toString("hex")}`;
  const folder = path.join(temporaryFolder(runAs), name);
  const keeper = startKeeper(folder, settings, runAs);
  const stop = async (): Promise<void> => {
    await endKeeper(keeper);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await answerOf(keeper, "made", "the making of its folder");
    const binaries = await usableBinaries(shipped, folder, runAs);
    const password = randomBytes(12).toString("hex");
    await initialise(keeper, binaries, folder, password, runAs);
    const port = await startOnFreePort(keeper, folder);
    return {
      port,
      url: (database = "postgres") =>
        `postgres://postgres:${password}@127.0.0.1:${port}/${database}`,
      restart: (mode) => restart(keeper, folder, port, mode),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** One in which the server's user can work, too: root's own TMPDIR may be closed to others. */
function temporaryFolder(runAs: RunAs | undefined): string {
  const folders = [os.tmpdir(), "/tmp", "/var/tmp"];
  const usable = folders.find(
    (folder) =>
      runAs === undefined ||
      spawnSync("/bin/sh", ["-c", `cd "$1" && [ -w . ]`, "sh", folder], { cwd: "/", ...runAs })
        .status === 0,
  );
  return usable ?? os.tmpdir();
}

function startKeeper(
  folder: string,
  settings: Readonly<Record<string, string>>,
  runAs: RunAs | undefined,
): Keeper {
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
  const keeper = spawn("/bin/sh", ["-c", KEEPER, "keeper", folder, ...options], {
    cwd: "/",
    // In a session of its own: Ctrl-C on a terminal must end the workers before their database.
    detached: true,
    stdio: ["pipe", "pipe", "ignore"],
    // Nothing of the user's: PG… variables and locales would change what the server does and says.
    env: { PATH: process.env.PATH ?? "/usr/bin:/bin", LC_ALL: "C" },
    ...runAs,
  });
  keeper.stdin.on("error", () => {}); // It ended; whoever waits for its answer is told.
  return keeper;
}

async function initialise(
  keeper: Keeper,
  binaries: string,
  folder: string,
  password: string,
  runAs: RunAs | undefined,
): Promise<void> {
  const passwordFile = path.join(folder, "password");
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (runAs) {
    await chown(passwordFile, runAs.uid, runAs.gid);
  }
  keeper.stdin.write(`${binaries}\n`);
  await answerOf(keeper, "initdb 0", "initdb").catch(async (cause: unknown) => {
    throw new Error(
      `the embedded Postgres cannot be set up (${await endOf(path.join(folder, "log"))}); --database-url names another`,
      { cause },
    );
  });
}

/** Waits for the keeper's next line, which must be the wanted one. */
async function answerOf(keeper: Keeper, wanted: string, what: string): Promise<void> {
  const signal = AbortSignal.timeout(START_DEADLINE_MS);
  const line = await Promise.race([
    once(keeper.stdout, "data", { signal }),
    once(keeper, "exit", { signal }).then(([code]) => `exit ${code}`),
  ]).catch((cause: unknown) => {
    throw new Error(`${what} took longer than ${START_DEADLINE_MS / 1000} s`, { cause });
  });
  if (String(line).trim() !== wanted) {
    throw new Error(`${what} failed: ${String(line).trim()}`);
  }
}

async function startOnFreePort(keeper: Keeper, folder: string): Promise<number> {
  for (let tries = 1; ; tries++) {
    const port = await freePort();
    keeper.stdin.write(`${port}\n`);
    const fault = await whenReady(port, path.join(folder, `log-${port}`));
    if (fault === undefined) {
      return port;
    }
    if (tries === PORT_TRIES || !/Address already in use/.test(fault)) {
      throw new Error(`the embedded Postgres did not start: ${fault}`);
    }
  }
}

async function restart(
  keeper: Keeper,
  folder: string,
  port: number,
  mode: "fast" | "immediate",
): Promise<void> {
  const pidFile = path.join(folder, "data", "postmaster.pid");
  const [pid = ""] = (await readFile(pidFile, "utf8")).split("\n");
  // https://www.postgresql.org/docs/18/server-shutdown.html
  process.kill(Number(pid), mode === "fast" ? "SIGINT" : "SIGQUIT");
  const deadline = Date.now() + STOP_DEADLINE_MS;
  while ((await readFile(pidFile, "utf8").catch(() => "")).startsWith(`${pid}\n`)) {
    if (Date.now() > deadline) {
      throw new Error(`the embedded Postgres did not stop within ${STOP_DEADLINE_MS / 1000} s`);
    }
    await delay(20);
  }
  const log = path.join(folder, `log-${port}`);
  await rm(log, { force: true });
  keeper.stdin.write(`${port}\n`);
  // Clients that come too early are turned away with a FATAL of their own in the log.
  const fault = await whenReady(port, log, { fatal: /FATAL: .*could not/ });
  if (fault !== undefined) {
    throw new Error(`the embedded Postgres did not start again: ${fault}`);
  }
}

async function endKeeper(keeper: Keeper): Promise<void> {
  if (keeper.exitCode !== null || keeper.signalCode !== null) {
    return;
  }
  const ended = once(keeper, "exit", { signal: AbortSignal.timeout(STOP_DEADLINE_MS) });
  keeper.stdin.end();
  await ended.catch((cause: unknown) => {
    throw new Error(`the embedded Postgres did not stop within ${STOP_DEADLINE_MS / 1000} s`, {
      cause,
    });
  });
}

/** Undefined once the server accepts connections, else the end of its log. */
async function whenReady(
  port: number,
  log: string,
  { fatal = /FATAL: / } = {},
): Promise<string | undefined> {
  const deadline = Date.now() + START_DEADLINE_MS;
  while (Date.now() < deadline) {
    const said = await endOf(log);
    // Read-only: a standby, which a test makes of it.
    if (/ready to accept (read-only )?connections/.test(said) && (await isListening(port))) {
      return undefined;
    }
    if (fatal.test(said)) {
      return said;
    }
    await delay(20);
  }
  return `not ready within ${START_DEADLINE_MS / 1000} s`;
}

async function endOf(log: string): Promise<string> {
  const said = await readFile(log, "utf8").catch(() => "");
  return said.trim().slice(-2000);
}
