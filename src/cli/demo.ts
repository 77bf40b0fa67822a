import path from "node:path";
import type { Command } from "commander";
import { DEMO_OPTIONS } from "../config/demo-options.js";
import { ConfigurationFaults, EXIT, type ExitCode } from "../config/exit.js";
import { PACKAGE_ROOT } from "../config/package-root.js";
import { type Environment, type Flags, readOptions } from "../config/read-options.js";
import { cleanUp } from "../demo/clean-up.js";
import { runDemo } from "../demo/demo.js";
import type { DemoOptions } from "../demo/demo-run.js";
import { DemoView } from "../demo/demo-view.js";
import { screenFor } from "../demo/screen.js";
import { catchStopWishes, whenNpmGone, whenOwnerGone } from "../demo/stop-wishes.js";
import { describeOptions } from "./help.js";
import { addOptions, flagsOf } from "./options.js";
import type { Terminal } from "./terminal.js";

/** Faulty machines unless told otherwise: a few, for a fleet without any shows half of what this does. */
const FAULTY = 3;
const MACHINES_PER_FAULTY = 8;
const USUAL_COLUMNS = 80;

/** What of the environment its processes are given: nothing that sets an option of theirs. */
const PASSED_ON = ["PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ"];

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
  command.action(async () => end(await show(flagsOf(command), terminal)));

  // Not for people: a demo starts it, so that what it leaves is taken away even if it is killed.
  program
    .command("clean-up-demo", { hidden: true })
    .argument("<folder>")
    .argument("[logins...]")
    .action(async (folder: string, logins: string[]) => {
      catchStopWishes(process); // Only the end of its input counts.
      await new Promise<void>((resolve) => whenOwnerGone(process, true, resolve));
      await cleanUp({ folder, logins, databaseUrl: terminal.environment.DATABASE_URL ?? null });
      end(EXIT.done);
    });
}

async function show(flags: Flags, terminal: Terminal): Promise<ExitCode> {
  const options = demoOptions(flags, terminal.environment);
  const wishes = catchStopWishes(process);
  const stopLooking = whenNpmGone(process, () => wishes.wish("npm has gone"));
  const view = new DemoView(
    screenFor(terminal.out, {
      isTerminal: terminal.outIsTerminal,
      columns: () => process.stdout.columns ?? USUAL_COLUMNS,
      environment: terminal.environment,
    }),
  );
  wishes.stop.addEventListener("abort", () => view.stopping(wishes.stop));
  try {
    const asItMustBe = await runDemo(options, {
      takeover: [process.execPath, path.join(PACKAGE_ROOT, "dist", "src", "main.js")],
      environment: passedOn(terminal.environment),
      view,
      stop: wishes.stop,
      stopNow: wishes.stopNow,
    });
    return asItMustBe ? EXIT.done : EXIT.no;
  } catch (error) {
    if (error === wishes.stop.reason) {
      return EXIT.no; // The view has told already.
    }
    throw error;
  } finally {
    stopLooking();
    wishes.release();
  }
}

function demoOptions(flags: Flags, environment: Environment): DemoOptions {
  const { values, faults, names, complete } = readOptions(DEMO_OPTIONS, flags, environment);
  if (values.machines !== undefined && (values.faulty ?? 0) > values.machines) {
    faults.push(
      `${names.faulty}: there are only ${values.machines} machines; give a number up to that.`,
    );
  }
  if (faults.length > 0) {
    throw new ConfigurationFaults(faults);
  }
  const options = complete();
  const usual = Math.min(FAULTY, Math.floor(options.machines / MACHINES_PER_FAULTY));
  return { ...options, faulty: options.faulty ?? usual };
}

function passedOn(environment: Environment): Record<string, string> {
  return Object.fromEntries(
    PASSED_ON.flatMap((name) => {
      const value = environment[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}
