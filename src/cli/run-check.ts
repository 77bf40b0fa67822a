import { type MachineRecord, readMachineRecord } from "../bmdb/machine-record.js";
import { openDatabase } from "../bmdb/operator-database.js";
import { LONGEST_TIMER_MS } from "../config/duration.js";
import { EXIT, type ExitCode } from "../config/exit.js";
import type { Flags } from "../config/read-options.js";
import { screenFor } from "../demo/screen.js";
import { PROVIDERS } from "../providers/known.js";
import { within } from "../ssh/deadline.js";
import { checkMachine } from "../takeover/check.js";
import { type Finding, unchecked } from "../takeover/check-findings.js";
import type { ProvidedMachine } from "../takeover/machine.js";
import { knownMigrations } from "../worker/migrations.js";
import { type CheckTarget, loadCheckConfiguration } from "./check-configuration.js";
import { findingLine, verdictLine } from "./check-view.js";
import { recordFindings } from "./record-findings.js";
import { catchSignals } from "./signals.js";
import type { Terminal } from "./terminal.js";

const USUAL_COLUMNS = 80;

/** Checks one machine and shows what was found; the exit code says whether a takeover would succeed. */
export async function runCheck(
  machineId: string | undefined,
  flags: Flags,
  terminal: Terminal,
): Promise<ExitCode> {
  const { target, settings } = await loadCheckConfiguration(machineId, flags, terminal.environment);
  const screen = screenFor(terminal.out, {
    isTerminal: terminal.outIsTerminal,
    columns: () => process.stdout.columns ?? USUAL_COLUMNS,
    environment: terminal.environment,
  });
  const findings: Finding[] = [];
  const tell = (finding: Finding) => {
    findings.push(finding);
    screen.write(`${findingLine(screen, finding)}\n`);
  };
  const { stop, release } = catchSignals();
  try {
    const machine = await machineOf(target, tell, stop);
    if (machine === null) {
      unchecked(new Set(["record"])).forEach(tell);
    } else {
      await checkMachine(machine, { settings, providers: PROVIDERS, tell }, stop);
    }
    screen.write(`${verdictLine(screen, findings)}\n`);
    return findings.some(({ verdict }) => verdict === "fail") ? EXIT.no : EXIT.done;
  } catch (error) {
    if (error !== stop.reason) {
      throw error;
    }
    terminal.err(`takeover: ${stop.reason.message}; the check was not finished.\n`);
    return EXIT.no;
  } finally {
    release();
  }
}

/** The machine as an attempt would see it; null where the database has none to be tried. */
async function machineOf(
  target: CheckTarget,
  tell: (finding: Finding) => void,
  stop: AbortSignal,
): Promise<ProvidedMachine | null> {
  if ("dryTry" in target) {
    return strangerAt(target.dryTry.address, target.dryTry.port);
  }
  const record = await readRecord(target.databaseUrl, target.machineId, stop);
  recordFindings(record).forEach(tell);
  return record?.machine ?? null;
}

/** A machine that stands in no database: as one that was just provided. */
function strangerAt(address: string, sshPort: number | null): ProvidedMachine {
  return {
    machineId: "",
    provider: "static",
    providerId: "",
    address,
    sshPort,
    sshUser: null,
    requiredHostKey: null,
    recordedHostKey: null,
  };
}

async function readRecord(
  databaseUrl: string,
  machineId: string,
  signal: AbortSignal,
): Promise<MachineRecord | undefined> {
  const database = openDatabase(databaseUrl);
  try {
    const read = readMachineRecord(database, machineId, await knownMigrations());
    // Its own deadlines are the database's; this is for the signal.
    const late = () => new Error("never");
    return await within({ ms: LONGEST_TIMER_MS, signal, late }, read);
  } finally {
    // Not awaited: after a signal a query may still be under way, and the end of this process is near.
    void database.end();
  }
}
