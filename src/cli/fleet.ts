import type { Command } from "commander";
import { FLEET_OPTIONS } from "../config/demo-options.js";
import type { ExitCode } from "../config/exit.js";
import { describeOptions } from "./help.js";
import { addOptions, flagsOf } from "./options.js";
import type { Terminal } from "./terminal.js";

/** `takeover fleet`: simulated machines, for the demo, for tests and for trying things out. */
export function addFleetCommand(
  program: Command,
  terminal: Terminal,
  end: (code: ExitCode) => void,
): void {
  const command = program
    .command("fleet")
    .summary("simulate machines to take over")
    .description(
      "Simulates machines on 127.0.0.1: each a real SSH server with a host key and a folder of its own, on which uploaded agents really run. For trials, never for strangers: what the key opens runs as the user who started this. Prints a line when it is ready; ends on SIGTERM, SIGINT, SIGHUP, and when a pipe on its standard input closes.",
    );
  addOptions(command, FLEET_OPTIONS);
  describeOptions(command, FLEET_OPTIONS);
  command.action(async () => {
    // Not before it is needed: a worker starts without the simulation.
    const { serve } = await import("./serve-fleet.js");
    end(await serve(flagsOf(command), terminal));
  });
}
