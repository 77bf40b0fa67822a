import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { ServerChannel } from "ssh2";
import type { Command } from "./command-words.js";
import { binFolder, type Machine } from "./machine.js";
import { MARK_VARIABLE } from "./marked-processes.js";

/** How a program ended; where it could not be started, code 127 as a shell would say. */
export interface ProgramEnding {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Starts a program on the machine: in its /root, and found again by the fleet's mark when all is to end. */
export function startProgram(machine: Machine, command: Command): ChildProcessWithoutNullStreams {
  const home = path.join(machine.folder, "root");
  const child = spawn(command.program, command.arguments, {
    cwd: home,
    // In a group of its own: what ends this fleet on a terminal must not end the machines' programs first.
    detached: true,
    env: {
      PATH: `${binFolder(machine)}:${machine.context.searchPath}`,
      HOME: home,
      USER: "root",
      LOGNAME: "root",
      SHELL: "/bin/sh",
      [MARK_VARIABLE]: machine.context.mark,
    },
  });
  for (const stream of [child.stdin, child.stdout, child.stderr]) {
    stream.on("error", () => {}); // A program need not read its input, nor anybody hear all it says.
  }
  return child;
}

/** Tells the client how the program ended. */
export function tellEnding(channel: ServerChannel, { code, signal }: ProgramEnding): void {
  if (signal === null) {
    channel.exit(code ?? 1);
  } else {
    channel.exit(signal.replace(/^SIG/, ""));
  }
}

/** How long after its end a program's last words are waited for, in milliseconds. */
const LAST_OUTPUT_MS = 1000;

/**
 * Sees a program to its end: calls back when it ended and all that it wrote was read, tells the client the
 * exit status, and ends the channel. A child that holds the streams delays that by a second, and the end of
 * the channel as long as it holds them, as with OpenSSH. When the client has gone, it writes into a closed pipe.
 */
export function seeToItsEnd(
  child: ChildProcess,
  channel: ServerChannel,
  ended: (ending: ProgramEnding) => void,
): void {
  const streamsEnded = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const end = async (ending: ProgramEnding): Promise<void> => {
    await Promise.race([streamsEnded, delay(LAST_OUTPUT_MS)]);
    ended(ending);
    tellEnding(channel, ending);
    await streamsEnded;
    channel.end();
  };
  child.once("error", (error) => {
    channel.stderr.write(`${error.message}\n`);
    end({ code: 127, signal: null });
  });
  child.once("exit", (code, signal) => end({ code, signal }));
  channel.once("close", () => {
    child.stdout?.destroy();
    child.stderr?.destroy();
  });
}
