import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ByteBudget } from "../../src/takeover/byte-budget.js";
import { never } from "../support/takeover-scene.js";

describe("a byte budget", () => {
  it("is served in order, large requests too", async () => {
    const budget = new ByteBudget(10);
    await budget.take(8, never());
    const served: string[] = [];
    const large = budget.take(9, never()).then(() => served.push("large"));
    const small = budget.take(1, never()).then(() => served.push("small"));
    await Promise.resolve();
    expect(served).toEqual([]);
    budget.give(8);
    await Promise.all([large, small]);
    expect(served).toEqual(["large", "small"]);
  });

  it("lets go of who aborts, and serves those behind", async () => {
    const budget = new ByteBudget(10);
    await budget.take(8, never());
    const aborter = new AbortController();
    const reason = new Error("stop");
    const large = budget.take(9, aborter.signal);
    const small = budget.take(2, never());
    aborter.abort(reason);
    await expect(large).rejects.toBe(reason);
    await small;
    await expect(budget.take(1, aborter.signal)).rejects.toBe(reason);
  });

  it("is never overdrawn, and serves everybody", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 10 }), { maxLength: 50 }),
        async (sizes) => {
          const budget = new ByteBudget(10);
          let inFlight = 0;
          let most = 0;
          await Promise.all(
            sizes.map(async (bytes) => {
              await budget.take(bytes, never());
              inFlight += bytes;
              most = Math.max(most, inFlight);
              await new Promise(setImmediate);
              inFlight -= bytes;
              budget.give(bytes);
            }),
          );
          expect(most).toBeLessThanOrEqual(10);
          expect(inFlight).toBe(0);
        },
      ),
    );
  });
});
