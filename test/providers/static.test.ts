import { expect, it } from "vitest";
import { staticProvider } from "../../src/providers/static.js";
import { machineAt, never } from "../support/takeover-scene.js";

it("a static machine is where its row says, and ready", async () => {
  expect(await staticProvider.locate(machineAt(22, { address: "192.0.2.1" }), never())).toEqual({
    state: "ready",
    addresses: ["192.0.2.1"],
  });
  expect(await staticProvider.locate(machineAt(22, { address: null }), never())).toEqual({
    state: "ready",
    addresses: [],
  });
});
