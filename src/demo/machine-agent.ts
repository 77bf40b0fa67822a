import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { rename, writeFile } from "node:fs/promises";
import type { ServerChannel } from "ssh2";
import { takeover } from "#proto/takeover";
import type { Command } from "./command-words.js";
import type { Run } from "./journal.js";
import { agentOn, type Machine } from "./machine.js";
import { seeToItsEnd, startProgram } from "./machine-process.js";
import { sha256Of } from "./machine-scripts.js";

/** More is no init, and is not read. */
const LONGEST_INIT = 1024 * 1024;
/** As much of a run's output is kept, to find the key in it. */
const LONGEST_REPLY = 256 * 1024;

/**
 * Runs the agent, and writes down when a run begins and ends, which attempt it is of and which key it gave.
 * The init is read to its end before: a run that is not of a known attempt would prove nothing.
 */
export async function runAgent(
  machine: Machine,
  command: Command,
  channel: ServerChannel,
  connection: number,
): Promise<void> {
  const input = await readInit(channel);
  if (input === null) {
    channel.close();
    return;
  }
  const init = decodeInit(input);
  const run: Run = {
    machineId: machine.plan.machineId,
    connection,
    nonce: init === null ? null : Buffer.from(init.nonce).toString("hex"),
    initMachineId: init?.machineId ?? null,
  };
  const { journal } = machine.context;
  const given = machine.plan.fault === "other-machine" ? forAnother(input) : input;
  const [agent = ""] = command.paths;
  const program = agentOn(machine, agent);
  // The marker of the worker's command line; see src/takeover/framed-command.ts.
  const marker = command.arguments.slice(3, 5).join("");

  journal.record({ event: "run_begin", ...run });
  // Written down before the client is told: the next attempt can only begin after that.
  const end = (agentKey: string | null, exitCode: number | null): void =>
    journal.record({ event: "run_end", ...run, agentKey, exitCode });
  if (program === agent && (await isAnsweredHere(machine, agent))) {
    end(await answerHere(agent, given, marker, channel), 0);
    channel.exit(0);
    channel.end();
    return;
  }
  const child = startProgram(machine, {
    ...command,
    arguments: command.arguments.map((word) => (word === agent ? program : word)),
  });
  const output = keepOutput(child);
  child.stdout.on("data", (chunk: Buffer) => channel.write(chunk));
  child.stderr.pipe(channel.stderr, { end: false });
  child.stdin.end(given);
  seeToItsEnd(child, channel, (ending) => end(keyIn(output(), marker), ending.code));
}

/** Null where the channel ends, or goes on and on. */
function readInit(channel: ServerChannel): Promise<Buffer | null> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    channel.on("data", (chunk: Buffer) => {
      size += chunk.length;
      chunks.push(chunk);
      if (size > LONGEST_INIT) {
        resolve(null);
      }
    });
    channel.once("end", () => resolve(Buffer.concat(chunks)));
    channel.once("close", () => resolve(null));
  });
}

function decodeInit(bytes: Buffer): takeover.TakeoverInit | null {
  try {
    return takeover.TakeoverInit.decode(bytes);
  } catch {
    return null; // Told by its absence from the journal; the agent gets it all the same.
  }
}

/** The same init for a machine that is not this one. */
function forAnother(bytes: Buffer): Buffer {
  const init = decodeInit(bytes);
  return init === null
    ? bytes
    : Buffer.from(
        takeover.TakeoverInit.encode({
          ...init,
          machineId: "00000000-0000-4000-8000-000000000000",
        }).finish(),
      );
}

/** What the program says, as far as it is kept. */
function keepOutput(child: ChildProcessWithoutNullStreams): () => Buffer {
  const chunks: Buffer[] = [];
  let size = 0;
  child.stdout.on("data", (chunk: Buffer) => {
    if (size < LONGEST_REPLY) {
      size += chunk.length;
      chunks.push(chunk);
    }
  });
  return () => Buffer.concat(chunks);
}

/** The key in what follows the marker, hex. */
function keyIn(output: Buffer, marker: string): string | null {
  const at = output.indexOf(marker, 0, "latin1");
  if (at < 0) {
    return null;
  }
  try {
    const reply = takeover.TakeoverResponse.decode(output.subarray(at + marker.length));
    return reply.key.length === 0 ? null : Buffer.from(reply.key).toString("hex");
  } catch {
    return null; // An answer in which nobody finds a key.
  }
}

async function isAnsweredHere({ context }: Machine, agent: string): Promise<boolean> {
  return context.inProcessAgent !== null && (await sha256Of(agent)) === context.inProcessAgent;
}

/** Does what the reference agent does, save staying behind, at a hundredth of the cost. Gives the key, hex. */
async function answerHere(
  agent: string,
  init: Buffer,
  marker: string,
  channel: ServerChannel,
): Promise<string> {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  await writeFile(`${agent}.key.new`, privateKey.export({ type: "pkcs8", format: "pem" }), {
    mode: 0o600,
  });
  await rename(`${agent}.key.new`, `${agent}.key`);
  const key = publicKey.export({ type: "spki", format: "der" }).subarray(-32);
  const initMessage = takeover.TakeoverInit.decode(init);
  channel.write(Buffer.from(marker, "latin1"));
  channel.write(Buffer.from(takeover.TakeoverResponse.encode({ initMessage, key }).finish()));
  return key.toString("hex");
}
