import type { Command } from "commander";
import type { ExitCode } from "../config/exit.js";
import { WORKER_OPTIONS } from "../config/worker-options.js";
import { describeOptions } from "./help.js";
import { addOptions, flagsOf } from "./options.js";
import type { Terminal } from "./terminal.js";

/** `takeover worker`: runs takeovers until it is told to stop. */
export function addWorkerCommand(
  program: Command,
  terminal: Terminal,
  end: (code: ExitCode) => void,
): void {
  const command = program
    .command("worker")
    .summary("run takeovers until told to stop")
    .description(
      "Takes jobs from the queue and runs takeovers, until SIGTERM or SIGINT. Any number of workers may run at once.",
    );
  addOptions(command, WORKER_OPTIONS);
  describeOptions(command, WORKER_OPTIONS);
  command.action(async () => {
    // Not before it is needed: other commands start without its packages.
    const { runWorkerCommand } = await import("./run-worker.js");
    end(await runWorkerCommand(flagsOf(command), terminal));
  });
}
