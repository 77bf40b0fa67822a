import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { printable } from "../errors.js";
import { endedWithin, exitOf } from "./kept-process.js";

/** `takeover fleet` as a process of its own, which ends when its owner does. */
export interface FleetProcess {
  /** Ends the machines and all that runs on them, and waits for it. */
  stop(): Promise<void>;
  kill(): void;
}

const READY_DEADLINE_MS = 60_000;
const STOP_DEADLINE_MS = 20_000;

/** Resolves once all machines listen. */
export async function startFleetProcess(
  command: readonly string[],
  environment: Readonly<Record<string, string>>,
  log: string,
): Promise<FleetProcess> {
  const [program = "", ...args] = command;
  const errors = openSync(log, "a");
  const child = spawn(program, args, {
    // In a session of its own: Ctrl-C on a terminal must end the workers before their machines.
    detached: true,
    stdio: ["pipe", "pipe", errors],
    env: environment,
  }) as ChildProcessByStdio<Writable, Readable, null>;
  closeSync(errors);
  child.stdin.on("error", () => {}); // It ended first.
  const ended = exitOf(child);
  const kill = () => void child.kill("SIGKILL");
  const timer = setTimeout(kill, READY_DEADLINE_MS);
  const ready = await Promise.race([once(child.stdout, "data"), ended]);
  clearTimeout(timer);
  if (!Array.isArray(ready)) {
    throw new Error(`the fleet ended with exit code ${ready}: ${said(log)}`);
  }
  child.stdout.resume();
  return {
    kill,
    async stop() {
      child.stdin.end();
      await endedWithin(STOP_DEADLINE_MS, ended).catch(kill);
      await ended;
    },
  };
}

function said(log: string): string {
  return printable(readFileSync(log, "utf8").slice(-2000));
}
