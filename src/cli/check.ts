import type { Command } from "commander";
import { CHECK_OPTIONS } from "../config/check-options.js";
import type { ExitCode } from "../config/exit.js";
import { describeOptions } from "./help.js";
import { addOptions, flagsOf } from "./options.js";
import type { Terminal } from "./terminal.js";

/** `takeover check MACHINE`: would a takeover succeed? */
export function addCheckCommand(
  program: Command,
  terminal: Terminal,
  end: (code: ExitCode) => void,
): void {
  const command = program
    .command("check")
    .summary("tell whether a takeover would succeed, and change nothing")
    .description(
      "Goes the way of a takeover up to its upload and looks at what it would meet from there on, a line per finding: ok, note (no obstacle), FAIL with the code that the takeover would have. Writes nothing on the machine, runs no agent, records nothing. Exits 0 if a takeover would be tried with success, as far as can be told, else 1.",
    )
    .argument("[MACHINE]", "the machine's id in bmdb.machines; or give --address");
  addOptions(command, CHECK_OPTIONS);
  describeOptions(command, CHECK_OPTIONS);
  command.action(async (machine: string | undefined) => {
    // Not before it is needed: other commands start without its packages.
    const { runCheck } = await import("./run-check.js");
    end(await runCheck(machine, flagsOf(command), terminal));
  });
}
