import fc from "fast-check";
import { expect, test } from "vitest";
import { conflictDelaySeconds, jittered, nextBackoffSeconds } from "../src/backoff.js";

test.each([
  ["provider", 30],
  ["machine", 60],
  ["record", 3600],
] as const)("the first backoff of class %s is %d s", (retryClass, seconds) => {
  expect(nextBackoffSeconds(retryClass, null)).toBe(seconds);
});

test("each consecutive failure waits 1.2 times as long, and never longer than 4 h", () => {
  let last: number | null = null;
  const seen: number[] = [];
  for (let n = 0; n < 40; n++) {
    last = nextBackoffSeconds("machine", last);
    seen.push(last);
  }
  expect(seen.slice(0, 3).map((s) => s.toFixed(1))).toEqual(["60.0", "72.0", "86.4"]);
  expect(Math.max(...seen)).toBe(4 * 3600);
  expect(seen).toEqual([...seen].sort((a, b) => a - b));
});

test("a worse class is not waited for shorter than its own first figure", () => {
  expect(nextBackoffSeconds("record", 60)).toBe(3600);
  expect(nextBackoffSeconds("machine", 3600)).toBe(4320);
});

test("what was written into the row by hand cannot make a wait of no length or no end", () => {
  for (const last of [Number.NaN, -5, Number.NEGATIVE_INFINITY]) {
    expect(nextBackoffSeconds("machine", last)).toBe(60);
  }
  expect(nextBackoffSeconds("machine", Number.POSITIVE_INFINITY)).toBe(4 * 3600);
});

test("jitter stays within ten per cent", () => {
  fc.assert(
    fc.property(
      fc.double({ min: 1, max: 14_400, noNaN: true }),
      fc.double({ min: 0, max: 0.999_999, noNaN: true }),
      (seconds, random) => {
        const wait = jittered(seconds, () => random);
        expect(wait).toBeGreaterThanOrEqual(seconds * 0.9 - 1e-6);
        expect(wait).toBeLessThanOrEqual(seconds * 1.1 + 1e-6);
      },
    ),
  );
});

test("a conflict is looked at again after 10 to 15 s", () => {
  expect(conflictDelaySeconds(() => 0)).toBe(10);
  expect(conflictDelaySeconds(() => 0.999)).toBeLessThan(15);
});
