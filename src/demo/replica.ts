import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { DatabaseUnusable, EXIT } from "../config/exit.js";
import { printable } from "../errors.js";
import { freePort } from "./free-port.js";
import { type KeptProcess, keepProcess } from "./kept-process.js";

/** A worker process of the demo. */
export interface Replica {
  /** From 1. */
  readonly number: number;
  readonly process: KeptProcess;
  readonly metricsUrl: string;
  readonly log: string;
  /** Under which the database knows it. */
  readonly sessionId: string;
}

const READY_DEADLINE_MS = 30_000;
const GRACE_SECONDS = 5;

/** Starts `takeover worker`, and resolves once it takes jobs. */
export async function startReplica(options: {
  readonly number: number;
  /** How `takeover` is started: node and its main file. */
  readonly takeover: readonly string[];
  /** The worker's flags, save its HTTP port and its grace. */
  readonly flags: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly log: string;
}): Promise<Replica> {
  const { number, takeover, flags, environment, log } = options;
  const port = await freePort();
  const process = keepProcess(
    [...takeover, "worker", ...flags, `--http-port=${port}`, `--shutdown-grace=${GRACE_SECONDS}s`],
    { log, environment, graceSeconds: GRACE_SECONDS + 5 },
  );
  try {
    await ready(`http://127.0.0.1:${port}/readyz`, process, log);
    const sessionId = /"sessionId":"([^"]+)"/.exec(await readFile(log, "utf8"))?.[1] ?? "";
    return { number, process, metricsUrl: `http://127.0.0.1:${port}/metrics`, log, sessionId };
  } catch (error) {
    await process.stop();
    throw error;
  }
}

async function ready(url: string, process: KeptProcess, log: string): Promise<void> {
  let ended: number | null | undefined;
  process.ended.then((code) => {
    ended = code;
  });
  const deadline = performance.now() + READY_DEADLINE_MS;
  while (performance.now() < deadline) {
    if (ended !== undefined) {
      throw await whyEnded(ended, log);
    }
    if (await answersWell(url)) {
      return;
    }
    await delay(50);
  }
  throw new Error(`a worker is not ready after ${READY_DEADLINE_MS / 1000} s; its log: ${log}`);
}

async function answersWell(url: string): Promise<boolean> {
  try {
    return (await fetch(url, { signal: AbortSignal.timeout(2_000) })).ok;
  } catch {
    return false; // Not listening yet.
  }
}

/** The worker's own last words, which name the remedy. */
async function whyEnded(code: number | null, log: string): Promise<Error> {
  const said = await readFile(log, "utf8").catch(() => "");
  const lines = said.split("\n").filter((line) => line.startsWith("takeover: "));
  const words = printable(lines.map((line) => line.slice("takeover: ".length)).join(" "));
  return code === EXIT.database
    ? new DatabaseUnusable(words)
    : new Error(`a worker ended with exit code ${code}: ${words}`);
}
