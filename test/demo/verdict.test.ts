import { describe, expect, test } from "vitest";
import type { MachineReport } from "../../src/bmdb/machine-report.js";
import type { JournalEntry } from "../../src/demo/journal.js";
import { faultsIn } from "../../src/demo/verdict.js";

const at = "2026-01-01T00:00:00.000Z";
const KEY = "ab".repeat(32);
const LATER = new Date(Date.now() + 60_000);

const sound: JournalEntry = {
  at,
  event: "machine",
  machineId: "m1",
  providerId: "sim-1",
  port: 1,
  folder: "/m1",
  fault: null,
  expectedCode: null,
};
const faulty: JournalEntry = {
  ...sound,
  machineId: "m2",
  providerId: "sim-2",
  fault: "refuse",
  expectedCode: "TAKEOVER_DIAL_REFUSED",
};
const run = (event: "run_begin" | "run_end", connection: number) =>
  ({ at, event, machineId: "m1", connection, nonce: "", initMachineId: "m1" }) as JournalEntry;

const started: MachineReport = {
  machineId: "m1",
  providerId: "sim-1",
  state: "started",
  agentKey: KEY,
  startedAt: new Date(),
  code: null,
  cause: null,
  nextAttemptAt: null,
  attempts: 1,
  seconds: 1,
  sessionId: null,
};
const failed: MachineReport = {
  ...started,
  machineId: "m2",
  providerId: "sim-2",
  state: "backoff",
  agentKey: null,
  code: "TAKEOVER_DIAL_REFUSED",
  nextAttemptAt: LATER,
};

const judge = (
  report: MachineReport[],
  journal: JournalEntry[] = [sound, faulty],
  held: string | null = KEY,
) => faultsIn({ report, journal, keyHeldOn: () => held });

describe("a demo is as it must be", () => {
  test("where every sound machine has its agent's key, and every faulty one its code", () => {
    const journal = [sound, faulty, run("run_begin", 1), run("run_end", 1), run("run_begin", 2)];
    expect(judge([started, failed], journal)).toEqual([]);
  });
});

describe("a demo is not as it must be", () => {
  test.each<[string, string[], RegExp]>([
    [
      "a key on record is another than the agent's",
      judge([started, failed], undefined, "cd"),
      /holds cd/,
    ],
    ["an agent holds no key", judge([started, failed], undefined, null), /holds none/],
    ["a machine is missing", judge([failed]), /sim-1 is not in the database/],
    [
      "a sound machine has no key",
      judge([{ ...started, agentKey: null, state: "pending" }, failed]),
      /sim-1 has no key on record and is pending/,
    ],
    [
      "a faulty machine has another code",
      judge([started, { ...failed, code: "TAKEOVER_DIAL_TIMEOUT" }]),
      /should have failed with TAKEOVER_DIAL_REFUSED, but has TAKEOVER_DIAL_TIMEOUT/,
    ],
    [
      "a faulty machine was started",
      judge([started, { ...failed, code: null, agentKey: KEY, state: "started" }]),
      /has no code and is started/,
    ],
    [
      "a faulty machine has no next attempt",
      judge([started, { ...failed, nextAttemptAt: null }]),
      /no next/,
    ],
    [
      "two runs met",
      judge([started, failed], [sound, faulty, run("run_begin", 1), run("run_begin", 2)]),
      /two runs/,
    ],
  ])("where %s", (_name, faults, words) => {
    expect(faults).toHaveLength(1);
    expect(faults[0]).toMatch(words);
  });
});
