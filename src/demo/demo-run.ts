import type { MachineReport } from "../bmdb/machine-report.js";
import type { JournalEntry } from "./journal.js";

/** What a demo is asked for. */
export interface DemoOptions {
  readonly machines: number;
  readonly faulty: number;
  readonly workers: number;
  readonly timeoutMs: number;
  readonly keep: boolean;
  /** Null: the demo starts a Postgres of its own. */
  readonly databaseUrl: string | null;
}

/** How a demo went. */
export interface DemoResult {
  readonly report: readonly MachineReport[];
  readonly journal: readonly JournalEntry[];
  /** What is not as it must be. */
  readonly faults: readonly string[];
  /** From the insertion until the last sound machine was taken over; null where one was not. */
  readonly takenOverMs: number | null;
}
