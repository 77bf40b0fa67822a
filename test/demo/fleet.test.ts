import { createHash, generateKeyPairSync } from "node:crypto";
import { copyFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import ssh2, { type ParsedKey } from "ssh2";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { PACKAGE_ROOT } from "../../src/config/package-root.js";
import { FAULT_NAMES, FAULTS } from "../../src/demo/faults.js";
import {
  type Fleet,
  type FleetMachine,
  type FleetOptions,
  rowOf,
  startFleet,
} from "../../src/demo/fleet.js";
import { machinesIn, overlapsIn, readJournal } from "../../src/demo/journal.js";
import { openConnection } from "../../src/ssh/dial.js";
import { ed25519PrivateFile, ed25519PublicLine } from "../../src/ssh/openssh-key.js";
import { loadAgentExecutable } from "../../src/takeover/agent-executable.js";
import type { ProvidedMachine } from "../../src/takeover/machine.js";
import { takeOver } from "../../src/takeover/pipeline.js";
import { runScript } from "../../src/takeover/remote-script.js";
import type { TakeoverSettings } from "../../src/takeover/settings.js";
import { failureOf } from "../support/rejection.js";
import { never, recordingContext } from "../support/takeover-scene.js";
import { processesOf } from "./leftovers.js";

let folder: string;
let journal: string;
let fleets: Fleet[];
let options: FleetOptions;
let settings: TakeoverSettings;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "takeover-fleet-test-"));
  journal = path.join(folder, "journal");
  fleets = [];
  const jwk = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const pair = {
    publicKey: Buffer.from(jwk.x ?? "", "base64url"),
    seed: Buffer.from(jwk.d ?? "", "base64url"),
  };
  const parsed = ssh2.utils.parseKey(ed25519PrivateFile(pair, "")) as ParsedKey;
  const publicLine = ed25519PublicLine(pair.publicKey);
  await copyFile(
    path.join(PACKAGE_ROOT, "dist", "src", "demo", "reference-agent.js"),
    path.join(folder, "agent"),
  );
  options = {
    machines: 1,
    faulty: 0,
    seed: 7,
    portBase: null,
    latencyMs: 0,
    authorizedKey: Buffer.from(publicLine.split(" ")[1] ?? "", "base64"),
    journalPath: journal,
    inProcessAgent: null,
  };
  settings = {
    executable: await loadAgentExecutable(path.join(folder, "agent")),
    targetPath: "/root/agent",
    endpoint: "control.example:8443",
    caCertificate: new Uint8Array(),
    sshUser: "root",
    sshKey: { parsed, publicLine },
    hostKeyPolicy: "accept-new",
    connectTimeoutMs: 2000,
    handshakeTimeoutMs: 3000,
    uploadStallTimeoutMs: 15_000,
    execTimeoutMs: 20_000,
    acceptFirstGenerationAgents: false,
  };
});

afterEach(async () => {
  await Promise.all(fleets.map((fleet) => fleet.stop()));
  await rm(folder, { recursive: true, force: true });
});

async function start(changes: Partial<FleetOptions> = {}): Promise<FleetMachine[]> {
  const searchPath = [path.dirname(process.execPath), process.env.PATH].join(":");
  const fleet = await startFleet({ ...options, ...changes }, searchPath);
  fleets.push(fleet);
  return [...fleet.machines];
}

function provided(machine: FleetMachine): ProvidedMachine {
  const row = rowOf(machine);
  return {
    machineId: row.machineId,
    provider: row.provider,
    providerId: row.providerId,
    address: row.address,
    sshPort: row.sshPort,
    sshUser: null,
    requiredHostKey: row.sshHostKey,
    recordedHostKey: null,
  };
}

async function takeOverOne(machine: FleetMachine) {
  const taken = await takeOver(provided(machine), recordingContext(settings).context, never());
  await taken.close();
  return taken;
}

const only = <T>([first]: readonly T[]): T => {
  if (first === undefined) throw new Error("none");
  return first;
};

describe("a simulated machine", () => {
  test("is taken over by a real agent, which ends with it", async () => {
    const machine = only(await start());
    const { agentKey } = await takeOverOne(machine);
    const [{ folder: root } = { folder: "" }] = machinesIn(readJournal(journal));
    expect(processesOf(path.join(root, "root", "agent"))).toHaveLength(1);
    const events = readJournal(journal).map(({ event }) => event);
    expect(events.slice(0, 6)).toEqual([
      "machine",
      "connected",
      "logged_in",
      "uploaded",
      "run_begin",
      "run_end",
    ]);
    expect(readJournal(journal).find(({ event }) => event === "run_end")).toMatchObject({
      machineId: machine.machineId,
      initMachineId: machine.machineId,
      nonce: expect.stringMatching(/^[0-9a-f]{32}$/),
      agentKey: Buffer.from(agentKey).toString("hex"),
      exitCode: 0,
    });
    await only(fleets).stop();
    expect(processesOf(root)).toEqual([]);
    await expect(readFile(path.join(root, "root", "agent"))).rejects.toThrow("ENOENT");
  });

  test("gives the same answers where they are made in the fleet's process, and starts nothing", async () => {
    const sha256 = createHash("sha256")
      .update(await readFile(settings.executable.path))
      .digest("hex");
    const machine = only(await start({ inProcessAgent: sha256 }));
    const { agentKey } = await takeOverOne(machine);
    const [{ folder: root } = { folder: "" }] = machinesIn(readJournal(journal));
    expect(processesOf(path.join(root, "root", "agent"))).toEqual([]);
    expect(readJournal(journal).find(({ event }) => event === "run_end")).toMatchObject({
      agentKey: Buffer.from(agentKey).toString("hex"),
    });
  });

  test("really starts an agent that is not the one to be answered for", async () => {
    const machine = only(await start({ inProcessAgent: "0".repeat(64) }));
    await takeOverOne(machine);
    expect(processesOf(machinesIn(readJournal(journal))[0]?.folder ?? "-")).toHaveLength(1);
  });

  test("answers later by the latency", async () => {
    const machine = only(await start({ latencyMs: 100 }));
    const begun = performance.now();
    const taken = await takeOverOne(machine);
    // The key exchange, the login and four channels alone take ten round trips.
    expect(performance.now() - begun).toBeGreaterThan(1000);
    expect(taken.agentKey).toHaveLength(32);
  });

  test("keeps its ids, its host key and its fault under the same seed", async () => {
    const first = await start({ machines: 20, faulty: 6 });
    const second = await start({ machines: 20, faulty: 6 });
    const other = await start({ machines: 20, faulty: 6, seed: 8 });
    const lasting = (machines: FleetMachine[]) => machines.map(({ port: _, ...rest }) => rest);
    expect(lasting(second)).toEqual(lasting(first));
    expect(other.map(({ machineId }) => machineId)).not.toEqual(
      first.map(({ machineId }) => machineId),
    );
    expect(new Set(first.map(({ machineId }) => machineId)).size).toBe(20);
    expect(first.filter(({ fault }) => fault !== null)).toHaveLength(6);
    const sound = (machines: FleetMachine[]) =>
      only(machines.filter(({ fault }) => fault === null));
    const hostKeys = [await takeOverOne(sound(first)), await takeOverOne(sound(second))];
    expect(hostKeys[1]?.hostKey).toBe(hostKeys[0]?.hostKey);
  });
});

describe("a faulty machine", () => {
  test("makes a worker fail with the code that stands in the table, in each of the ways", async () => {
    const machines = await start({ machines: 10, faulty: 9 });
    expect(
      machines
        .map(({ fault }) => fault)
        .filter(Boolean)
        .sort(),
    ).toEqual(FAULT_NAMES.toSorted());
    const codes = await Promise.all(
      machines
        .filter(({ fault }) => fault !== null)
        .map(async (machine) => {
          const failure = await failureOf(takeOverOne(machine));
          return [machine.fault, failure.code] as const;
        }),
    );
    expect(Object.fromEntries(codes)).toEqual(
      Object.fromEntries(FAULT_NAMES.map((name) => [name, FAULTS[name].code])),
    );
    await takeOverOne(only(machines.filter(({ fault }) => fault === null)));
    expect(overlapsIn(readJournal(journal))).toEqual([]);
  });

  test("that is full takes no byte from a shell, either", async () => {
    const machines = await start({ machines: 9, faulty: 9 });
    const full = only(machines.filter(({ fault }) => fault === "full-disk"));
    const connection = await openConnection(
      {
        address: "127.0.0.1",
        port: full.port,
        user: "root",
        key: settings.sshKey,
        hostKey: { policy: "insecure", required: null, recorded: null },
        connectTimeoutMs: 2000,
        handshakeTimeoutMs: 5000,
      },
      never(),
    );
    const limit = { ms: 5000, signal: never(), late: () => new Error("no answer within 5 s") };
    const result = await runScript(
      connection,
      `if echo word | cat >"$1"; then echo written=yes; else echo written=no; fi; rm -f "$1"`,
      ["/root/file"],
      limit,
    );
    await connection.close();
    expect(result.get("written")).toBe("no");
    expect(result.stderr).toMatch(/no space left/i);
  });
});
