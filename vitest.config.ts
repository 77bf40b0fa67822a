import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** A clean clone knows no durations; begun last, what takes a minute would be waited for by itself. */
class LongOnesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification) => /\/test\/(e2e|chaos)\//.test(moduleId);
    const sorted = await super.sort(files);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/support/postgres.ts"],
    pool: "forks",
    maxWorkers: 4,
    // The files share their workers' modules: loading them anew took a quarter of the time.
    isolate: false,
    sequence: { sequencer: LongOnesFirst },
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: process.env.CI
      ? ["default", ["json", { outputFile: ".test-results.json" }]]
      : ["default"],
  },
});
