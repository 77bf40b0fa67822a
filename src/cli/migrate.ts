import type { Command } from "commander";
import { EXIT, type ExitCode } from "../config/exit.js";
import { readOptions } from "../config/read-options.js";
import { DATABASE_OPTIONS } from "../config/worker-options.js";
import type { Migrated } from "../worker/migrate.js";
import { describeOptions } from "./help.js";
import { addOptions, flagsOf } from "./options.js";
import type { Terminal } from "./terminal.js";

/** `takeover migrate`: brings the database's schemas up to this program's version. */
export function addMigrateCommand(
  program: Command,
  terminal: Terminal,
  end: (code: ExitCode) => void,
): void {
  const command = program
    .command("migrate")
    .summary("bring the database up to this version")
    .description(
      "Brings the queue's schema and bmdb up to this version. Safe to repeat, and when several run at once.",
    );
  addOptions(command, DATABASE_OPTIONS);
  describeOptions(command, DATABASE_OPTIONS);
  command.action(async () => {
    const options = readOptions(DATABASE_OPTIONS, flagsOf(command), terminal.environment);
    const { databaseUrl } = options.complete();
    // Not before it is needed: other commands start without its packages.
    const { migrate } = await import("../worker/migrate.js");
    terminal.out(`${summary(await migrate(databaseUrl))}\n`);
    end(EXIT.done);
  });
}

function summary({ queueLevelBefore, queueLevel, applied }: Migrated): string {
  const done = [
    ...(queueLevelBefore === queueLevel
      ? []
      : [`graphile_worker: level ${queueLevelBefore} to ${queueLevel}`]),
    ...applied.map((name) => `bmdb: applied ${name}`),
  ];
  return done.length === 0 ? "The database is up to date." : done.join("\n");
}
