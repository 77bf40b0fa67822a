import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { ProvidedRow } from "../bmdb/provide-machines.js";
import { FAULTS } from "./faults.js";
import { openJournal } from "./journal.js";
import type { FleetContext, Machine } from "./machine.js";
import { type FleetPlan, type PlannedMachine, planMachines } from "./machine-plan.js";
import { listen, occupy, type Port } from "./machine-ports.js";
import { sshServer } from "./machine-server.js";
import { endMarkedProcesses } from "./marked-processes.js";

export interface FleetOptions extends FleetPlan {
  /** The first machine's port, the others following; null for any that are free. */
  readonly portBase: number | null;
  readonly latencyMs: number;
  /** In SSH's wire format. */
  readonly authorizedKey: Buffer;
  readonly journalPath: string | null;
  /** SHA-256 of the agent to answer for in this process, hex; null to start every agent. */
  readonly inProcessAgent: string | null;
}

export interface FleetMachine extends PlannedMachine {
  readonly port: number;
}

/** Simulated machines, each a real SSH server on 127.0.0.1. */
export interface Fleet {
  readonly machines: readonly FleetMachine[];
  /** Ends everything that runs on the machines and removes their folders. */
  stop(): Promise<void>;
}

/**
 * @param searchPath PATH of all that runs on the machines
 * @throws PortTaken where a machine's port cannot be had
 */
export async function startFleet(options: FleetOptions, searchPath: string): Promise<Fleet> {
  const folder = await mkdtemp(path.join(tmpdir(), "takeover-fleet-"));
  const journal = openJournal(options.journalPath);
  const context: FleetContext = {
    seed: options.seed,
    authorizedKey: options.authorizedKey,
    latencyMs: options.latencyMs,
    mark: randomBytes(12).toString("hex"),
    searchPath,
    inProcessAgent: options.inProcessAgent,
    journal,
    nextConnection: counter(),
  };
  const ports: Port[] = [];
  const stop = async (): Promise<void> => {
    for (const port of ports) {
      port.close();
    }
    await endMarkedProcesses(context.mark);
    await rm(folder, { recursive: true, force: true });
    journal.close();
  };
  const machines: FleetMachine[] = [];
  try {
    for (const plan of planMachines(options)) {
      const machine: Machine = { plan, folder: path.join(folder, plan.providerId), context };
      const port = await open(
        machine,
        options.portBase === null ? 0 : options.portBase + plan.number - 1,
      );
      ports.push(port);
      machines.push({ ...plan, port: port.number });
      journal.record({
        event: "machine",
        machineId: plan.machineId,
        providerId: plan.providerId,
        port: port.number,
        folder: machine.folder,
        fault: plan.fault,
        expectedCode: plan.fault === null ? null : FAULTS[plan.fault].code,
      });
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return { machines, stop };
}

function open(machine: Machine, port: number): Promise<Port> {
  switch (machine.plan.fault) {
    case "refuse":
      return occupy(port);
    case "stall":
      return listen(port, () => {});
    default:
      return listen(port, sshServer(machine));
  }
}

function counter(): () => number {
  let last = 0;
  return () => ++last;
}

/** The row by which a worker finds the machine. */
export function rowOf({ machineId, providerId, port, demandedHostKey }: FleetMachine): ProvidedRow {
  return {
    machineId,
    provider: "static",
    providerId,
    address: "127.0.0.1",
    sshPort: port,
    sshHostKey: demandedHostKey,
  };
}
