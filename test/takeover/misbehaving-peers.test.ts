import { afterAll, beforeAll, expect, test } from "vitest";
import { type PeersReport, runPeers } from "../support/run-peers.js";
import { waitFor } from "../support/wait.js";

// In `npm test` a short run with one seed; `npm run peers` makes it long. To replay or to change one:
// SEED=7 ATTEMPTS=1000 npm run peers

const full = process.env.npm_lifecycle_event === "peers";
const setting = (name: string, short: number, long: number) =>
  Number(process.env[name] ?? (full ? long : short));

const seed = setting("SEED", 1, Date.now() % 1_000_000);
const attempts = setting("ATTEMPTS", 60, 1000);

/** What may be added to the heap between the warm-up and the end, in bytes. */
const HEAP_GROWTH = 10 * 1024 * 1024;

const uncaught: unknown[] = [];
const note = (error: unknown) => uncaught.push(error);

beforeAll(() => {
  process.on("uncaughtException", note);
  process.on("unhandledRejection", note);
});
afterAll(() => {
  process.off("uncaughtException", note);
  process.off("unhandledRejection", note);
});

test(`every attempt ends in time with a code and leaves nothing, whatever its peer does (seed ${seed})`, async () => {
  const resources = () => process.getActiveResourcesInfo().sort();
  const listeners = () =>
    process.eventNames().map((name) => `${String(name)} ${process.listenerCount(name)}`);
  const before = { resources: resources(), listeners: listeners() };

  const report = await runPeers({ seed, attempts, parallel: 50, warmUp: Math.round(attempts / 5) });

  process.stdout.write(table(report));
  expect(report.violations).toEqual([]);
  expect(uncaught).toEqual([]);
  expect(report.heap[1] - report.heap[0]).toBeLessThan(HEAP_GROWTH);
  expect(listeners()).toEqual(before.listeners);
  await waitFor(
    "no more handles than before",
    () => resources().length <= before.resources.length,
  ).catch(() => expect(resources()).toEqual(before.resources));
}, 300_000);

function table({ injected, outcomes, heap, ...report }: PeersReport): string {
  const megabytes = (bytes: number) => (bytes / 1024 / 1024).toFixed(1);
  return [
    `misbehaving peers, seed ${seed}: ${attempts} attempts, ${report.soundAttempts} of them with sound machines, ${report.seconds} s`,
    `the slowest took ${report.slowestSeconds.toFixed(1)} s; heap ${heap.map(megabytes).join(" MB, then ")} MB`,
    "injected",
    ...Object.entries(injected).map(
      ([stage, kinds]) =>
        `  ${stage}: ${Object.entries(kinds)
          .map(([kind, times]) => `${kind} ${times}`)
          .join(", ")}`,
    ),
    "outcomes",
    ...Object.entries(outcomes).map(([what, times]) => `  ${String(times).padStart(6)}  ${what}`),
    "",
  ].join("\n");
}
