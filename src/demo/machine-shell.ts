import { lstatSync, mkdirSync, symlinkSync } from "node:fs";
import path from "node:path";
import type { ServerChannel } from "ssh2";
import { type Command, commandOf, runsAgent } from "./command-words.js";
import { inMachine, type Machine } from "./machine.js";
import { runAgent } from "./machine-agent.js";
import { seeToItsEnd, startProgram } from "./machine-process.js";
import { answerScript, guardHere, guardsUpload } from "./machine-scripts.js";

/** A device that takes no byte: whoever writes to it is told that no space is left. */
const FULL_DEVICE = "/dev/full";

/** Runs a command line on the machine, with its streams on the channel. */
export async function runCommand(
  machine: Machine,
  line: string,
  channel: ServerChannel,
  connection: number,
): Promise<void> {
  const command = commandOf(line, (name) => inMachine(machine, name));
  if (machine.plan.fault === "full-disk") {
    fillUp(command);
  }
  if (runsAgent(command)) {
    await runAgent(machine, command, channel, connection);
    return;
  }
  const inProcess = machine.context.inProcessAgent !== null && machine.plan.fault === null;
  if (inProcess && guardsUpload(command)) {
    guardHere(command, channel);
    return;
  }
  const answer = inProcess ? await answerScript(command) : null;
  if (answer === null) {
    runProgram(machine, command, channel, connection);
    return;
  }
  channel.resume();
  channel.write(answer);
  channel.exit(0);
  channel.end();
}

function runProgram(
  machine: Machine,
  command: Command,
  channel: ServerChannel,
  connection: number,
): void {
  const child = startProgram(machine, command);
  let received = 0;
  channel.on("data", (chunk: Buffer) => {
    received += chunk.length;
  });
  channel.pipe(child.stdin);
  child.stdout.pipe(channel, { end: false });
  child.stderr.pipe(channel.stderr, { end: false });
  seeToItsEnd(child, channel, () => {
    // A worker that finds no SFTP uploads into a command.
    if (received > 0 && !guardsUpload(command)) {
      machine.context.journal.record({
        event: "uploaded",
        machineId: machine.plan.machineId,
        connection,
        path: (command.paths[0] ?? "").slice(machine.folder.length),
        bytes: received,
      });
    }
  });
}

/** On a full machine each name that does not exist yet is the full device, so that real programs fail really. */
function fillUp(command: Command): void {
  for (const name of command.paths) {
    if (lstatSync(name, { throwIfNoEntry: false }) === undefined) {
      mkdirSync(path.dirname(name), { recursive: true });
      symlinkSync(FULL_DEVICE, name);
    }
  }
}
