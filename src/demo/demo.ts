import { createPrivateKey, createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { readProgress, readReport } from "../bmdb/machine-report.js";
import { provideMachines } from "../bmdb/provide-machines.js";
import type { DemoOptions, DemoResult } from "./demo-run.js";
import { type JournaledMachine, readJournal } from "./journal.js";
import { type DemoContext, openStage, type Stage } from "./stage.js";
import { faultsIn } from "./verdict.js";

const LOOK_EVERY_MS = 150;

/**
 * The whole of it: a database, simulated machines, workers, the machines put into the database, and what
 * comes of it. Resolves with whether all was as it must be. All that it started is gone when it settles.
 */
export async function runDemo(options: DemoOptions, context: DemoContext): Promise<boolean> {
  const { view, stop } = context;
  view.title(options);
  const stage = await openStage(options, context);
  try {
    const result = await watch(stage, options, context);
    view.result(result, stage);
    if (options.keep && !stop.aborted) {
      view.keep(result, stage);
      await aborted(stop);
    }
    return result.faults.length === 0;
  } finally {
    await stage.close();
  }
}

async function watch(
  stage: Stage,
  options: DemoOptions,
  { view, stop }: DemoContext,
): Promise<DemoResult> {
  const ids = stage.rows.map(({ machineId }) => machineId);
  const sound = options.machines - options.faulty;
  stop.throwIfAborted();
  view.insertion(stage.rows);
  await provideMachines(stage.database, stage.rows);

  const begun = performance.now();
  let takenOverMs: number | null = null;
  for (let settled = false; !settled && !stop.aborted; ) {
    const progress = await readProgress(stage.database, ids);
    const elapsed = performance.now() - begun;
    view.progress(progress, elapsed);
    if (progress.started >= sound) {
      takenOverMs ??= elapsed;
    }
    settled = progress.started >= sound && progress.failed >= options.faulty;
    if (stage.lostReplica() !== null || elapsed > options.timeoutMs) {
      break;
    }
    await delay(settled ? 0 : LOOK_EVERY_MS);
  }
  view.progressEnds();
  stop.throwIfAborted();

  const report = await readReport(stage.database, ids);
  const journal = readJournal(stage.journal);
  const lost = stage.lostReplica();
  return {
    report,
    journal,
    faults: [...(lost === null ? [] : [lost]), ...faultsIn({ journal, report, keyHeldOn })],
    takenOverMs,
  };
}

/** The public half of the private key that the reference agent put beside itself, hex. */
function keyHeldOn({ folder }: JournaledMachine): string | null {
  try {
    const file = readFileSync(path.join(folder, "root", "agent.key"));
    const { x } = createPublicKey(createPrivateKey(file)).export({ format: "jwk" });
    return Buffer.from(x ?? "", "base64url").toString("hex");
  } catch {
    return null; // No agent ever ran there.
  }
}

/** Resolves once the signal is aborted. */
function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true });
    if (signal.aborted) {
      resolve();
    }
  });
}
