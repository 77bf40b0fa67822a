import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createLimitedLogger } from "../../src/telemetry/limited-logger.js";
import { createLogger } from "../../src/telemetry/logger.js";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function recorder() {
  const lines: { msg: string; count?: number; leftOut?: number }[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  const logger = createLogger({ level: "info", destination, readable: false });
  return { limited: createLimitedLogger(logger, 60_000), lines };
}

describe("lines under a limit", () => {
  it("are written once per period, the last of a period at its end with the number left out", () => {
    const { limited, lines } = recorder();
    for (let count = 1; count <= 10; count++) {
      limited.log("warn", "away", { count }, "the database is away");
    }
    expect(lines.map(({ count }) => count)).toEqual([1]);
    vi.advanceTimersByTime(60_000);
    expect(lines.map(({ count, leftOut }) => [count, leftOut])).toEqual([
      [1, undefined],
      [10, 8],
    ]);
  });

  it("keep their rate in a flood without an end, and none is written after its end", () => {
    const { limited, lines } = recorder();
    for (let second = 0; second < 600; second++) {
      limited.log("warn", "away", {}, "away");
      vi.advanceTimersByTime(1000);
    }
    expect(lines.length).toBeLessThanOrEqual(11);
    vi.advanceTimersByTime(120_000);
    const after = lines.length;
    vi.advanceTimersByTime(3_600_000);
    expect(lines).toHaveLength(after);
    limited.log("warn", "away", {}, "again");
    expect(lines.at(-1)?.msg).toBe("again");
  });

  it("do not hold back those under another key", () => {
    const { limited, lines } = recorder();
    limited.log("warn", "a", {}, "a");
    limited.log("warn", "b", {}, "b");
    expect(lines).toHaveLength(2);
  });

  it("are told when the log closes", () => {
    const { limited, lines } = recorder();
    limited.log("warn", "a", {}, "a");
    limited.log("warn", "a", { count: 2 }, "a");
    limited.close();
    expect(lines.at(-1)).toMatchObject({ count: 2, leftOut: 0 });
    expect(vi.getTimerCount()).toBe(0);
  });
});
