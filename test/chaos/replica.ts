import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { PostgresProxy } from "../support/postgres-proxy.js";

/** A worker process that is started again whenever it ends, as an orchestrator would. */
export class Replica {
  readonly proxy: PostgresProxy;
  readonly #command: readonly string[];
  readonly #environment: NodeJS.ProcessEnv;
  readonly #log: string;
  #child: ChildProcess | undefined;
  #wanted = true;
  #running: Promise<void> = Promise.resolve();

  constructor(
    command: readonly string[],
    environment: NodeJS.ProcessEnv,
    log: string,
    proxy: PostgresProxy,
  ) {
    this.#command = command;
    this.#environment = environment;
    this.#log = log;
    this.proxy = proxy;
  }

  start(): void {
    this.#running = this.#keepRunning();
  }

  async #keepRunning(): Promise<void> {
    const [program = "", ...args] = this.#command;
    while (this.#wanted) {
      const log = openSync(this.#log, "a");
      this.#child = spawn(program, args, { env: this.#environment, stdio: ["ignore", log, log] });
      closeSync(log);
      await once(this.#child, "exit");
      if (this.#wanted) {
        await delay(500);
      }
    }
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  /** Ends it for good. A worker that does not obey SIGTERM in time is killed, and that is an error. */
  async stop(deadlineMs: number): Promise<void> {
    this.#wanted = false;
    this.signal("SIGCONT");
    this.signal("SIGTERM");
    const late = setTimeout(() => this.signal("SIGKILL"), deadlineMs);
    await this.#running;
    clearTimeout(late);
    if (this.#child?.signalCode === "SIGKILL") {
      throw new Error(`a replica did not end within ${deadlineMs / 1000} s of SIGTERM`);
    }
  }
}
