import { fstatSync } from "node:fs";
import path from "node:path";
import { openDatabase, serverVersion } from "../bmdb/operator-database.js";
import { provideMachines } from "../bmdb/provide-machines.js";
import { ConfigurationFaults, DatabaseUnusable, EXIT, type ExitCode } from "../config/exit.js";
import type { Flags } from "../config/read-options.js";
import { type Fleet, type FleetMachine, rowOf, startFleet } from "../demo/fleet.js";
import { loadFleetConfiguration } from "../demo/fleet-configuration.js";
import { PortTaken } from "../demo/machine-ports.js";
import { catchStopWishes, whenOwnerGone } from "../demo/stop-wishes.js";
import { describe } from "../errors.js";
import type { Terminal } from "./terminal.js";

/** Runs a fleet until it is told to stop, or whoever started it has gone. */
export async function serve(flags: Flags, terminal: Terminal): Promise<ExitCode> {
  const wishes = catchStopWishes(process);
  whenOwnerGone(process, stdinIsChannel(), () => wishes.wish("whoever started this has gone"));
  const { fleet: options, registerAt } = await loadFleetConfiguration(flags, terminal.environment);
  const fleet = await startFleet(options, searchPath()).catch((error: unknown) => {
    throw error instanceof PortTaken
      ? new ConfigurationFaults([`--port-base: ${error.message}; choose other ports.`])
      : error;
  });
  try {
    if (registerAt !== null) {
      await register(registerAt, fleet);
    }
    terminal.out(`${readyLine(fleet.machines)}\n`);
    await new Promise<void>((resolve) => {
      wishes.stop.addEventListener("abort", () => resolve());
      if (wishes.stop.aborted) resolve();
    });
  } finally {
    await fleet.stop();
    wishes.release();
  }
  return EXIT.done;
}

async function register(databaseUrl: string, { machines }: Fleet): Promise<void> {
  const database = openDatabase(databaseUrl);
  try {
    await serverVersion(database);
    await provideMachines(database, machines.map(rowOf), { again: true });
  } catch (error) {
    throw error instanceof DatabaseUnusable
      ? error
      : new DatabaseUnusable(
          `the machines could not be inserted: ${describe(error)}; has the database been migrated (takeover migrate), and is the role a member of takeover_inventory?`,
          { cause: error },
        );
  } finally {
    await database.end();
  }
}

/** The one line on standard output: whoever started this waits for it. */
function readyLine(machines: readonly FleetMachine[]): string {
  const ports = machines.map(({ port }) => port);
  const faulty = machines.filter(({ fault }) => fault !== null).length;
  return `ready: ${machines.length} simulated machines, ${faulty} of them faulty, on 127.0.0.1, ports ${Math.min(...ports)} to ${Math.max(...ports)}`;
}

/** This Node before others, so that an agent in JavaScript finds one on the machines. */
function searchPath(): string {
  return [path.dirname(process.execPath), process.env.PATH ?? "/usr/bin:/bin"].join(":");
}

/** A pipe or a socket has another end; a terminal, a file and /dev/null have none to wait for. */
function stdinIsChannel(): boolean {
  try {
    const stats = fstatSync(0);
    return stats.isFIFO() || stats.isSocket();
  } catch {
    return false; // Closed by whoever started this.
  }
}
