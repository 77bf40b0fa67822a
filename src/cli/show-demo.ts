import path from "node:path";
import { DEMO_OPTIONS } from "../config/demo-options.js";
import { ConfigurationFaults, EXIT, type ExitCode } from "../config/exit.js";
import { PACKAGE_ROOT } from "../config/package-root.js";
import { type Environment, type Flags, readOptions } from "../config/read-options.js";
import { runDemo } from "../demo/demo.js";
import type { DemoOptions } from "../demo/demo-run.js";
import { DemoView } from "../demo/demo-view.js";
import { screenFor } from "../demo/screen.js";
import { catchStopWishes, whenNpmGone } from "../demo/stop-wishes.js";
import type { Terminal } from "./terminal.js";

/** Faulty machines unless told otherwise: a few, for a fleet without any shows half of what this does. */
const FAULTY = 3;
const MACHINES_PER_FAULTY = 8;
const USUAL_COLUMNS = 80;

/** What of the environment its processes are given: nothing that sets an option of theirs. */
const PASSED_ON = ["PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ"];

/** Runs the demo on this terminal; the exit code says whether all was as it must be. */
export async function show(flags: Flags, terminal: Terminal): Promise<ExitCode> {
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
