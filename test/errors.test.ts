import fc from "fast-check";
import { expect, test } from "vitest";
import {
  describe as describeError,
  FAILURES,
  printable,
  STEPS,
  TakeoverError,
} from "../src/errors.js";

test("every code is named after its step", () => {
  for (const [code, { step }] of Object.entries(FAILURES)) {
    expect(code).toMatch(new RegExp(`^TAKEOVER_${step.toUpperCase()}_[A-Z_]+$`));
    expect(STEPS).toContain(step);
  }
});

test("an error's description is its chain of causes, outermost first, each text once", () => {
  const cause = new Error("connect ECONNREFUSED 10.0.0.1:22");
  const error = new TakeoverError("TAKEOVER_DIAL_REFUSED", "the machine refused", { cause });
  expect(describeError(error)).toBe("the machine refused: connect ECONNREFUSED 10.0.0.1:22");
  expect(describeError(new Error("same", { cause: new Error("same") }))).toBe("same");
});

test("an error without a message is described by its reasons or its code, never by nothing", () => {
  const reasons = new AggregateError([new Error("first"), new Error("second")], "");
  expect(describeError(reasons)).toBe("first; second");
  expect(describeError(Object.assign(new Error(""), { code: "ETIMEDOUT" }))).toBe("ETIMEDOUT");
  expect(describeError(undefined)).toBe("no reason given");
  expect(describeError("text")).toBe("text");
});

test("a chain of causes that leads back to itself ends", () => {
  const error = new Error("around");
  error.cause = error;
  expect(describeError(error)).toBe("around");
});

test("text from outside becomes one line without control characters, which Postgres takes", () => {
  expect(printable("a\u0000b\u001b[31m\nc\u202Ed\ud800")).toBe("a b [31m c d\ufffd");
});

test("text from outside is bounded, and cut between characters", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "binary", maxLength: 300 }),
      fc.integer({ min: 1, max: 50 }),
      (text, longest) => {
        const clean = printable(text, longest);
        expect(Array.from(clean).length).toBeLessThanOrEqual(longest);
        expect(clean.isWellFormed()).toBe(true);
        expect(clean).not.toMatch(/[\p{Cc}\p{Cf}]/u);
      },
    ),
  );
});
