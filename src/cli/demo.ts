import type { Command } from "commander";
import { DEMO_OPTIONS } from "../config/demo-options.js";
import { EXIT, type ExitCode } from "../config/exit.js";
import { describeOptions } from "./help.js";
import { addOptions, flagsOf } from "./options.js";
import type { Terminal } from "./terminal.js";

/** `takeover demo`: everything at once, on this computer alone. */
export function addDemoCommand(
  program: Command,
  terminal: Terminal,
  end: (code: ExitCode) => void,
): void {
  const command = program
    .command("demo")
    .summary("see it work, on simulated machines")
    .description(
      "Starts a Postgres, simulated machines and workers, puts the machines into the database with plain SQL, and shows what comes of it. Exits 0 only if every sound machine has on record the very key that its agent holds, and every faulty one the code of its fault and a next attempt. Everything it started is gone at the end, however it ends.",
    );
  addOptions(command, DEMO_OPTIONS);
  describeOptions(command, DEMO_OPTIONS);
  command.action(async () => {
    // Not before it is needed: a worker starts without the simulation.
    const { show } = await import("./show-demo.js");
    end(await show(flagsOf(command), terminal));
  });

  // Not for people: a demo starts it, so that what it leaves is taken away even if it is killed.
  program
    .command("clean-up-demo", { hidden: true })
    .argument("<folder>")
    .argument("[logins...]")
    .action(async (folder: string, logins: string[]) => {
      const { catchStopWishes, whenOwnerGone } = await import("../demo/stop-wishes.js");
      const { cleanUp } = await import("../demo/clean-up.js");
      catchStopWishes(process); // Only the end of its input counts.
      await new Promise<void>((resolve) => whenOwnerGone(process, true, resolve));
      await cleanUp({ folder, logins, databaseUrl: terminal.environment.DATABASE_URL ?? null });
      end(EXIT.done);
    });
}
