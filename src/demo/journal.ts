import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import type { FailureCode } from "../errors.js";
import type { FaultName } from "./faults.js";

/** What a fleet writes down, one JSON object per line. Times tell, the order of lines decides. */
export type JournalEvent =
  /** Once per machine, at the start. */
  | {
      readonly event: "machine";
      readonly machineId: string;
      readonly providerId: string;
      readonly port: number;
      /** What the machine sees as its root folder. */
      readonly folder: string;
      readonly fault: FaultName | null;
      readonly expectedCode: FailureCode | null;
    }
  | {
      readonly event: "connected" | "logged_in" | "disconnected";
      readonly machineId: string;
      /** Numbers all connections of the fleet, from 1. */
      readonly connection: number;
    }
  | {
      readonly event: "uploaded";
      readonly machineId: string;
      readonly connection: number;
      readonly path: string;
      readonly bytes: number;
    }
  /** Whether the reply itself was made here (`--in-process-agent`) makes no difference. */
  | ({ readonly event: "run_begin" } & Run)
  | ({
      readonly event: "run_end";
      /** Hex, from the reply; null where there was none in it. */
      readonly agentKey: string | null;
      /** Null where a signal ended it. */
      readonly exitCode: number | null;
    } & Run);

/** One run of the agent. */
export interface Run {
  /** The simulated machine's own id. */
  readonly machineId: string;
  readonly connection: number;
  /** From the init: which attempt of a worker this is, hex. Null where the init cannot be read. */
  readonly nonce: string | null;
  /** From the init: whom the worker believes to talk to. */
  readonly initMachineId: string | null;
}

export type JournalEntry = JournalEvent & { readonly at: string };

export interface Journal {
  record(event: JournalEvent): void;
  close(): void;
}

/** Appends to `path`, so that a journal can go on over several fleets; null for nowhere. */
export function openJournal(path: string | null): Journal {
  if (path === null) {
    return { record: () => {}, close: () => {} };
  }
  const file = openSync(path, "a");
  let open = true;
  return {
    // Written before it is acted upon: a fleet that is killed leaves a journal that is true.
    record(event) {
      if (open) {
        writeSync(file, `${JSON.stringify({ at: new Date().toISOString(), ...event })}\n`);
      }
    },
    close() {
      if (open) {
        open = false;
        closeSync(file);
      }
    },
  };
}

/** All complete lines of a journal, which may still be written to. */
export function readJournal(path: string): JournalEntry[] {
  return readFileSync(path, "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

export type JournaledMachine = Extract<JournalEntry, { event: "machine" }>;

export function machinesIn(journal: readonly JournalEntry[]): JournaledMachine[] {
  return journal.filter((entry) => entry.event === "machine");
}

/** The machines on which two runs of the agent met: what must never be. */
export function overlapsIn(journal: readonly JournalEntry[]): string[] {
  const running = new Map<string, number>();
  const met = new Set<string>();
  for (const entry of journal) {
    if (entry.event === "run_begin" || entry.event === "run_end") {
      const runs = (running.get(entry.machineId) ?? 0) + (entry.event === "run_begin" ? 1 : -1);
      running.set(entry.machineId, runs);
      if (runs > 1) {
        met.add(entry.machineId);
      }
    }
  }
  return [...met];
}
