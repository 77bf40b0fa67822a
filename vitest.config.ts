import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/support/postgres.ts"],
    pool: "forks",
    maxWorkers: 4,
    isolate: false,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: process.env.CI
      ? ["default", ["json", { outputFile: ".test-results.json" }]]
      : ["default"],
  },
});
