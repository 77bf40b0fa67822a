import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Journal } from "./journal.js";
import type { PlannedMachine } from "./machine-plan.js";

/** What all machines of a fleet share. */
export interface FleetContext {
  readonly seed: number;
  /** The key that may log in, in SSH's wire format. */
  readonly authorizedKey: Buffer;
  /** Added to every answer, in milliseconds. */
  readonly latencyMs: number;
  /** In the environment of all that runs on the machines, by which it is found again; see marked-processes.ts. */
  readonly mark: string;
  /** PATH of all that runs on the machines. */
  readonly searchPath: string;
  /** SHA-256 of the agent that need not be started but is answered for, hex; null to start every agent. */
  readonly inProcessAgent: string | null;
  readonly journal: Journal;
  nextConnection(): number;
}

/** A simulated machine that runs. */
export interface Machine {
  readonly plan: PlannedMachine;
  /** Its root folder. */
  readonly folder: string;
  readonly context: FleetContext;
}

/** Leads an absolute path of the machine into its folder; `..` ends at its root, as everywhere. */
export function inMachine({ folder }: Machine, absolute: string): string {
  return path.join(folder, path.posix.normalize(`/${absolute}`));
}

/** What `df` says on a full machine: that is what the worker asks when a write failed. */
const FULL_DF = `#!/bin/sh
echo "Filesystem 1024-blocks Used Available Capacity Mounted on"
echo "/dev/sda1 1048576 1048576 0 100% /"
`;

/**
 * In place of the agent on machines whose fault shows when it is run: the first is what the kernel and the
 * shell make of a program whose loader is missing, and no pretence of it.
 */
const STAND_INS: Readonly<Record<string, string>> = {
  "no-loader": "#!/lib/ld-none.so.0\n",
  "exits-3": `#!/bin/sh\ncat >/dev/null\necho "no license for this machine" >&2\nexit 3\n`,
  "rubbish-reply": "#!/bin/sh\ncat >/dev/null\nprintf 'Segmentation fault'\n",
};

/** Makes the machine's folder, with what its fault needs. May be repeated. */
export function furnish(machine: Machine): void {
  mkdirSync(path.join(machine.folder, "root"), { recursive: true, mode: 0o700 });
  if (machine.plan.fault === "full-disk") {
    writeProgram(path.join(binFolder(machine), "df"), FULL_DF);
  }
  const standIn = STAND_INS[machine.plan.fault ?? ""];
  if (standIn !== undefined) {
    writeProgram(path.join(binFolder(machine), "stand-in"), standIn);
  }
}

/** What runs when the agent is run: the agent, or what the machine's fault has in its place. */
export function agentOn(machine: Machine, agent: string): string {
  return machine.plan.fault !== null && machine.plan.fault in STAND_INS
    ? path.join(binFolder(machine), "stand-in")
    : agent;
}

/** Programs that this machine has before all others. */
export function binFolder({ folder }: Machine): string {
  return path.join(folder, "simulated");
}

function writeProgram(file: string, content: string): void {
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  writeFileSync(file, content);
  chmodSync(file, 0o755);
}
