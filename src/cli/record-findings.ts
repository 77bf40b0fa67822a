import type { MachineRecord } from "../bmdb/machine-record.js";
import { formatDuration } from "../config/duration.js";
import { printable } from "../errors.js";
import { type Finding, note, ok } from "../takeover/check-findings.js";

/** What the database says of a machine: whether a takeover would be tried at all. Undefined: it knows of none. */
export function recordFindings(record: MachineRecord | undefined): Finding[] {
  if (record === undefined) {
    return [barred("no machine has this id: it would have a row in bmdb.machines")];
  }
  const { machine } = record;
  if (machine === null) {
    return [barred("not provided: it has no row in bmdb.machine_provided")];
  }
  const provider = printable(machine.provider, 100);
  const bars = [
    record.startedAt &&
      `its agent is on record since ${toTheSecond(record.startedAt)}: to start it anew, delete its row in bmdb.machine_agent_started`,
    record.heldFor !== null &&
      `held: ${printable(record.heldFor, 200)}; select bmdb.release_takeover('${machine.machineId}')`,
    record.pausedFor !== null &&
      `provider ${provider} is paused: ${printable(record.pausedFor, 200)}`,
    record.installed && "the installation of its system that was requested is reported as done",
  ].filter((bar) => typeof bar === "string");
  return [
    ...(bars.length > 0
      ? bars.map(barred)
      : [ok("record", `provided by ${provider} as "${printable(machine.providerId, 128)}"`)]),
    ...(record.running ? [note("record", "a worker has it in hand right now")] : []),
    ...(record.backoffSeconds === null
      ? []
      : [note("record", `not before ${formatDuration(record.backoffSeconds * 1000)} from now`)]),
  ];
}

/** No failure of the machine, so without a code: a takeover would not even be tried. */
function barred(text: string): Finding {
  return { subject: "record", verdict: "fail", text, code: null };
}

const toTheSecond = (at: Date) => at.toISOString().replace(/\..*$/, "Z");
