import { describe, expect, it } from "vitest";
import { Snooze } from "../../src/errors.js";
import type { Located, Provider } from "../../src/providers/provider.js";
import { staticProvider } from "../../src/providers/static.js";
import { locate } from "../../src/takeover/locate.js";
import { failureOf } from "../support/rejection.js";
import { machineAt, never } from "../support/takeover-scene.js";

const answering = (located: Located): Map<string, Provider> =>
  new Map([["cloud", { locate: async () => located }]]);
const inCloud = machineAt(22, { provider: "cloud" });
const locateAt = (...addresses: string[]) =>
  locate(inCloud, answering({ state: "ready", addresses }), never());

describe("locate", () => {
  it("takes the address in the row for a static machine", async () => {
    const providers = new Map([["static", staticProvider]]);
    expect(await locate(machineAt(22, { address: "192.0.2.7" }), providers, never())).toBe(
      "192.0.2.7",
    );
    const failure = await failureOf(locate(machineAt(22, { address: null }), providers, never()));
    expect(failure.code).toBe("TAKEOVER_LOCATE_NO_ADDRESS");
  });

  it("prefers IPv4, then takes IPv6, and nothing that is no IP literal", async () => {
    expect(await locateAt("2001:db8::1", "192.0.2.1", "192.0.2.2")).toBe("192.0.2.1");
    expect(await locateAt("machine.example", "2001:db8::1")).toBe("2001:db8::1");
    const failure = await failureOf(locateAt("machine.example", "0x7f.1", "192.0.2.1:22"));
    expect(failure.code).toBe("TAKEOVER_LOCATE_NO_ADDRESS");
    expect(failure.message).toContain("machine.example");
  });

  it("names the known providers where a machine's is unknown", async () => {
    const providers = new Map([
      ["static", staticProvider],
      ["cloud", staticProvider],
    ]);
    const failure = await failureOf(
      locate(machineAt(22, { provider: "claud\n" }), providers, never()),
    );
    expect(failure.code).toBe("TAKEOVER_LOCATE_UNKNOWN_PROVIDER");
    expect(failure.retryClass).toBe("record");
    expect(failure.message).toBe(
      'no provider "claud" is known to this worker; known: cloud, static',
    );
  });

  it("snoozes where the provider says that it is not ready, for as long as it says", async () => {
    const providers = answering({
      state: "not_ready",
      reason: "still\nprovisioning",
      retryAfterSeconds: 45,
    });
    const outcome = await locate(inCloud, providers, never()).catch((error: unknown) => error);
    expect(outcome).toBeInstanceOf(Snooze);
    expect(outcome).toMatchObject({ message: "still provisioning", seconds: 45 });
  });

  it("fails where the machine is gone", async () => {
    const failure = await failureOf(
      locate(inCloud, answering({ state: "gone", reason: "no such device" }), never()),
    );
    expect(failure.code).toBe("TAKEOVER_LOCATE_GONE");
  });

  it("blames the provider where it cannot be asked", async () => {
    const broken: Provider = { locate: async () => Promise.reject(new Error("ECONNREFUSED")) };
    const failure = await failureOf(locate(inCloud, new Map([["cloud", broken]]), never()));
    expect(failure.code).toBe("TAKEOVER_LOCATE_FAILED");
    expect(failure.retryClass).toBe("provider");
  });

  it("aborts a provider that does not answer, with the reason given", async () => {
    const silent: Provider = { locate: () => new Promise(() => {}) };
    const aborter = new AbortController();
    const located = locate(inCloud, new Map([["cloud", silent]]), aborter.signal);
    const reason = new Error("stop");
    aborter.abort(reason);
    await expect(located).rejects.toBe(reason);
  });
});
