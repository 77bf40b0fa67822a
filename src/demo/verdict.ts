import type { MachineReport } from "../bmdb/machine-report.js";
import { type JournalEntry, type JournaledMachine, machinesIn, overlapsIn } from "./journal.js";

/** All that is known at the end of a demo. */
export interface Evidence {
  readonly journal: readonly JournalEntry[];
  readonly report: readonly MachineReport[];
  /** The public key of the private key that lies on a machine, hex; null where there is none. */
  readonly keyHeldOn: (machine: JournaledMachine) => string | null;
}

/**
 * What is not as it must be, a sentence each: every sound machine has on record the very key that its agent
 * holds, every faulty one the code of its fault and a next attempt, and no two runs met on a machine.
 */
export function faultsIn({ journal, report, keyHeldOn }: Evidence): string[] {
  const reports = new Map(report.map((row) => [row.machineId, row]));
  const faults = machinesIn(journal).flatMap((machine) => {
    const row = reports.get(machine.machineId);
    if (row === undefined) {
      return [`${machine.providerId} is not in the database`];
    }
    const fault =
      machine.expectedCode === null
        ? soundFault(row, keyHeldOn(machine))
        : faultyFault(row, machine.expectedCode);
    return fault === null ? [] : [`${machine.providerId} ${fault}`];
  });
  const met = new Set(overlapsIn(journal));
  return [
    ...faults,
    ...machinesIn(journal)
      .filter(({ machineId }) => met.has(machineId))
      .map(({ providerId }) => `${providerId} had two runs of its agent at once`),
  ];
}

function soundFault(row: MachineReport, held: string | null): string | null {
  if (row.agentKey === null) {
    const why = row.code === null ? "" : `: ${row.code}, ${row.cause}`;
    return `has no key on record and is ${row.state}${why}`;
  }
  return row.agentKey === held
    ? null
    : `has the key ${row.agentKey} on record, but its agent holds ${held ?? "none"}`;
}

function faultyFault(row: MachineReport, expected: string): string | null {
  if (row.code !== expected) {
    return `should have failed with ${expected}, but has ${row.code ?? "no code"} and is ${row.state}`;
  }
  return row.nextAttemptAt === null ? "has no next attempt" : null;
}
