import { Command, CommanderError } from "commander";
import { EXIT, type ExitCode } from "../config/exit.js";
import { programVersion } from "../config/version.js";
import { addCheckCommand } from "./check.js";
import { addDemoCommand } from "./demo.js";
import { addFleetCommand } from "./fleet.js";
import { addKeygenCommand } from "./keygen.js";
import { addMigrateCommand } from "./migrate.js";
import { report } from "./report.js";
import type { Terminal } from "./terminal.js";
import { addWorkerCommand } from "./worker.js";

/** Runs one command line, without the program's name, to its exit code. Never throws. */
export async function run(argv: readonly string[], terminal: Terminal): Promise<ExitCode> {
  let code: ExitCode = EXIT.done;
  const program = createProgram(terminal, (result) => {
    code = result;
  });
  try {
    await program.parseAsync([...argv], { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) {
      // Already told. Help and version that were asked for are no errors; help for want of a command is.
      return error.exitCode === 0 ? EXIT.done : EXIT.configuration;
    }
    return report(error, terminal, wantsDetails(program, terminal));
  }
}

function createProgram(terminal: Terminal, end: (code: ExitCode) => void): Command {
  const program = new Command("takeover")
    .description(
      "Starts an agent on every machine that a provider hands over, and puts its key on record.",
    )
    .version(programVersion())
    .exitOverride()
    .configureOutput({
      writeOut: terminal.out,
      writeErr: terminal.err,
      outputError: (text, write) =>
        write(`takeover: ${text.trim().replace(/^error: /, "")}; see takeover --help.\n`),
      getOutHelpWidth: () => 80,
      getErrHelpWidth: () => 80,
    });
  addMigrateCommand(program, terminal, end);
  addWorkerCommand(program, terminal, end);
  addCheckCommand(program, terminal, end);
  addKeygenCommand(program, terminal, end);
  addFleetCommand(program, terminal, end);
  addDemoCommand(program, terminal, end);
  return program;
}

function wantsDetails(program: Command, { environment }: Terminal): boolean {
  const levels = program.commands.map((command) => command.opts<{ logLevel?: string }>().logLevel);
  const level = levels.find((given) => given !== undefined) ?? environment.TAKEOVER_LOG_LEVEL;
  return level === "debug" || level === "trace";
}
