import { expect, test } from "vitest";
import { runChaos } from "./run-chaos.js";

// In `npm test` a short run with one seed; `npm run chaos` makes it long. To replay or to change one:
// SEED=7 MACHINES=500 REPLICAS=3 FAULTS=100 npm run chaos

const full = process.env.npm_lifecycle_event === "chaos";
const setting = (name: string, short: number, long: number) =>
  Number(process.env[name] ?? (full ? long : short));

const options = {
  seed: setting("SEED", 1, Date.now() % 1_000_000),
  machines: setting("MACHINES", 30, 2_000),
  faulty: setting("FAULTY", 4, 20),
  replicas: setting("REPLICAS", 2, 4),
  injections: setting("FAULTS", 21, 200),
  everyMs: full ? 900 : 300,
  relayEvery: full ? 20 : 4,
};

test(`every machine has exactly the key of its last agent, whatever goes wrong (seed ${options.seed})`, async () => {
  const report = await runChaos(options);
  const lines = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts).map(([what, count]) => `  ${String(count).padStart(6)}  ${what}`);
  process.stdout.write(
    [
      `chaos, seed ${options.seed}: ${options.machines} machines, ${options.replicas} replicas, ${report.seconds} s`,
      "injected",
      ...lines(report.injected),
      "survived",
      ...lines(report.counted),
      report.kept === null
        ? "no violation"
        : `${report.violations.length} violations, see ${report.kept}`,
      "",
    ].join("\n"),
  );
  expect(report.violations).toEqual([]);
}, 1_200_000);
