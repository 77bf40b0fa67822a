import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { hasSchema, type OperatorDatabase, openDatabase } from "../bmdb/operator-database.js";
import { forgetMachines } from "../bmdb/provide-machines.js";
import { connectionsOf, dropWorkerLogins } from "../bmdb/worker-logins.js";
import { machinesIn, readJournal } from "./journal.js";
import { endedWithin, exitOf } from "./kept-process.js";
import { processesWith } from "./marked-processes.js";

/** What a demo leaves behind unless it is taken away. */
export interface Remains {
  /** With everything that the demo wrote. */
  readonly folder: string;
  /** The database of somebody else, where the demo used one. */
  readonly databaseUrl: string | null;
  /** The logins that it made there. */
  readonly logins: readonly string[];
}

/** The journal's name in that folder: it says which machines there were. */
export const JOURNAL = "journal.jsonl";

const WORKERS_END_MS = 20_000;
const FOLDER_GOES_MS = 30_000;
const CLEANED_UP_MS = 60_000;

/** Takes all of it away. The database waits for the workers, which end at the same time. */
export async function cleanUp({ folder, databaseUrl, logins }: Remains): Promise<void> {
  try {
    if (databaseUrl !== null) {
      await cleanUpDatabase(databaseUrl, logins, path.join(folder, JOURNAL));
    }
  } finally {
    await removeFolder(folder);
  }
}

/**
 * The fleet, whose temporary folder this is, ends at the same time; a command that a worker gave it might make
 * its machine's folder anew, and with it this one. Workers may still write their logs.
 */
async function removeFolder(folder: string): Promise<void> {
  const deadline = performance.now() + FOLDER_GOES_MS;
  while (processesWith("TMPDIR", folder).length > 0 && performance.now() < deadline) {
    await delay(50);
  }
  await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}

async function cleanUpDatabase(
  databaseUrl: string,
  logins: readonly string[],
  journal: string,
): Promise<void> {
  const machines = existsSync(journal) ? machinesIn(readJournal(journal)) : [];
  const database = openDatabase(databaseUrl);
  try {
    await workersEnd(database, logins);
    await dropWorkerLogins(database, logins);
    if (await hasSchema(database)) {
      await forgetMachines(
        database,
        machines.map(({ machineId }) => machineId),
      );
    }
  } finally {
    await database.end();
  }
}

/** Resolves when no worker of the demo is connected any more, or at a deadline. */
async function workersEnd(database: OperatorDatabase, logins: readonly string[]): Promise<void> {
  const deadline = performance.now() + WORKERS_END_MS;
  while ((await connectionsOf(database, logins)) > 0 && performance.now() < deadline) {
    await delay(100);
  }
}

/** Somebody who cleans up however this process ends. */
export interface CleanUpProcess {
  /** Has it done now. Rejects where something stays behind. */
  finish(): Promise<void>;
}

/**
 * Starts a process that waits for the end of its standard input and then cleans up: so that it is done in one
 * way on every way out, SIGKILL of this process included.
 *
 * @param command the command that calls `cleanUp`
 */
export function startCleanUpProcess(
  command: readonly string[],
  environment: Readonly<Record<string, string>>,
): CleanUpProcess {
  const [program = "", ...args] = command;
  const child: ChildProcess = spawn(program, args, {
    detached: true,
    // What it cannot take away it tells on the terminal.
    stdio: ["pipe", "ignore", "inherit"],
    env: environment,
  });
  child.stdin?.on("error", () => {}); // It ended first; its exit code tells.
  const ended = exitOf(child);
  return {
    async finish() {
      child.stdin?.end();
      await endedWithin(CLEANED_UP_MS, ended);
      if ((await ended) !== 0) {
        throw new Error("not everything could be cleaned up");
      }
    },
  };
}
