import type { MachineReport } from "../bmdb/machine-report.js";
import type { DemoResult } from "./demo-run.js";
import { machinesIn } from "./journal.js";
import type { Replica } from "./replica.js";
import { cut, inSeconds, type Screen, styled } from "./screen.js";
import { table } from "./table.js";

/** More would push everything else off the screen. */
const MOST_STARTED = 30;
const MOST_FAILED = 20;
const MOST_FAULTS = 20;
/** As much of a key, in hex, as tells it from all others here. */
const KEY_DIGITS = 16;

/** The machines with their agents' keys. */
export function startedTable(
  screen: Screen,
  { report }: DemoResult,
  replicas: readonly Replica[],
): string[] {
  const started = report.filter(({ agentKey }) => agentKey !== null);
  if (started.length === 0) {
    return [];
  }
  const more = screen.unicode ? "…" : "...";
  const rows = started
    .slice(0, MOST_STARTED)
    .map((row) => [
      row.machineId.slice(0, 8),
      row.providerId,
      `${row.agentKey?.slice(0, KEY_DIGITS)}${more}`,
      String(row.attempts),
      row.seconds?.toFixed(1) ?? "",
      replicaOf(row, replicas),
    ]);
  return [
    ...table(
      screen,
      [
        { title: "machine", align: "left" },
        { title: "provider id", align: "left" },
        { title: "agent key", align: "left" },
        { title: "attempts", align: "right" },
        { title: "seconds", align: "right" },
        { title: "replica", align: "right" },
      ],
      rows,
    ),
    ...leftOut(screen, started.length - rows.length),
    "",
  ];
}

/** The machines that failed, as it was to be expected or not, each with its cause below. */
export function failedTable(screen: Screen, { report, journal }: DemoResult): string[] {
  const faultOf = new Map(machinesIn(journal).map(({ machineId, fault }) => [machineId, fault]));
  const failed = report.filter(({ agentKey, code }) => agentKey === null && code !== null);
  if (failed.length === 0) {
    return [];
  }
  const shown = failed.slice(0, MOST_FAILED);
  const [head = "", ...lines] = table(
    screen,
    [
      { title: "provider id", align: "left" },
      { title: "simulated", align: "left" },
      { title: "code", align: "left" },
      { title: "next attempt", align: "left" },
    ],
    shown.map((row) => [
      row.providerId,
      faultOf.get(row.machineId) ?? "no fault",
      row.code ?? "",
      fromNow(row.nextAttemptAt),
    ]),
  );
  const causes = shown.map(({ cause }) =>
    styled(screen, "dim", `    ${cut(screen, cause ?? "", screen.columns() - 5)}`),
  );
  return [
    head,
    ...lines.flatMap((line, index) => [styled(screen, "yellow", line), causes[index] ?? ""]),
    ...leftOut(screen, failed.length - shown.length),
    "",
  ];
}

/** Totals and rate, and whether it all is as it must be. */
export function summary(
  screen: Screen,
  { report, journal, faults, takenOverMs }: DemoResult,
  replicas: readonly Replica[],
): string[] {
  const started = report.filter(({ agentKey }) => agentKey !== null);
  const shares = replicas.map(({ number, sessionId }) => {
    const own = started.filter((row) => row.sessionId === sessionId);
    return `${own.length} by replica ${number}`;
  });
  const faulty = machinesIn(journal).filter(({ fault }) => fault !== null).length;
  const pace =
    takenOverMs === null
      ? ""
      : ` in ${inSeconds(takenOverMs)}, ${((started.length * 1000) / takenOverMs).toFixed(1)} per second`;
  const total = `  ${started.length} of ${report.length} machines taken over${pace}:`;
  const totals = [styled(screen, "bold", total), `  ${shares.join(", ")}.`];
  if (faults.length > 0) {
    return [
      ...totals,
      styled(screen, "red", "  It is not as it must be:"),
      ...faults.slice(0, MOST_FAULTS).map((fault) => styled(screen, "red", `  - ${fault}`)),
      ...leftOut(screen, faults.length - MOST_FAULTS),
    ];
  }
  const also = [
    "Each key on record is the one that the machine's agent holds.",
    "No two runs of an agent met on a machine.",
    ...(faulty === 0 ? [] : ["Each faulty machine has the code of its fault, and a next attempt."]),
  ];
  return [...totals, ...also.map((line) => styled(screen, "green", `  ${line}`))];
}

function replicaOf({ sessionId }: MachineReport, replicas: readonly Replica[]): string {
  return String(replicas.find((replica) => replica.sessionId === sessionId)?.number ?? "?");
}

function fromNow(at: Date | null): string {
  if (at === null) {
    return "none";
  }
  const seconds = Math.max(0, Math.round((at.getTime() - Date.now()) / 1000));
  return seconds < 120 ? `in ${seconds} s` : `in ${Math.round(seconds / 60)} min`;
}

function leftOut(screen: Screen, number: number): string[] {
  return number > 0 ? [styled(screen, "dim", `  and ${number} more`)] : [];
}
