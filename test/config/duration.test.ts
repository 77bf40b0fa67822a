import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  formatDuration,
  LONGEST_SPAN_MS,
  LONGEST_TIMER_MS,
  parseDuration,
} from "../../src/config/duration.js";

describe("a duration", () => {
  it.each([
    ["250ms", 250],
    ["2s", 2000],
    ["1m30s", 90_000],
    ["36h", 129_600_000],
    ["1d", 86_400_000],
    ["1h1ms", 3_600_001],
    ["0h5s", 5000],
    ["24d20h31m23s647ms", LONGEST_TIMER_MS],
  ])("%s is %d ms", (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
  });

  it.each([
    ["", "is not a duration"],
    ["soon", "is not a duration"],
    ["5", "has no unit"],
    ["0", "has no unit"],
    ["-5s", "is not a duration"],
    ["+5s", "is not a duration"],
    ["1.5s", "is not a duration"],
    ["5S", "is not a duration"],
    ["5 s", "is not a duration"],
    [" 5s", "is not a duration"],
    ["30s1m", "is not a duration"],
    ["1s1s", "is not a duration"],
    ["1e3s", "is not a duration"],
    ["٣s", "is not a duration"],
    ["0s", "is zero"],
    ["0h0m0ms", "is zero"],
    ["25d", "is too long"],
    ["24d20h31m23s648ms", "is too long"],
    [`${"9".repeat(400)}d`, "is too long"],
  ])("%j %s", (text, problem) => {
    expect(() => parseDuration(text)).toThrow(problem);
  });

  it("may exceed what a timer takes where it is no timer", () => {
    expect(parseDuration("90d", LONGEST_SPAN_MS)).toBe(7_776_000_000);
    expect(() => parseDuration("90d")).toThrow("is too long");
  });

  it("is written as it is read", () => {
    expect(formatDuration(90_000)).toBe("1m30s");
    expect(formatDuration(LONGEST_TIMER_MS)).toBe("24d20h");
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1000 }), fc.constantFrom("ms", "s", "m"), (n, unit) => {
        const ms = parseDuration(`${n}${unit}`);
        expect(ms - parseDuration(formatDuration(ms))).toBeGreaterThanOrEqual(0);
      }),
    );
  });
});
