import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readJournal } from "../../src/demo/journal.js";
import { createKeyPair } from "../../src/ssh/keygen.js";
import { createDatabase } from "../support/postgres.js";
import { waitFor, within } from "../support/wait.js";
import { MAIN, takeover, takeoverHere } from "./command-line.js";

let folder: string;
let key: string;
let fleets: ChildProcess[];

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "takeover-fleet-cli-"));
  key = path.join(folder, "key");
  createKeyPair(key, "test");
  fleets = [];
});

afterEach(async () => {
  for (const fleet of fleets) {
    fleet.kill("SIGKILL");
  }
  await rm(folder, { recursive: true, force: true });
});

function fleet(flags: readonly string[], environment: Record<string, string> = {}) {
  const child = spawn(
    process.execPath,
    [MAIN, "fleet", "--machines=3", `--authorized-key=${key}.pub`, ...flags],
    {
      env: { PATH: process.env.PATH, TMPDIR: folder, ...environment },
      stdio: ["pipe", "pipe", "pipe"],
    },
  );
  fleets.push(child);
  let out = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    out += text;
  });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  return {
    child,
    ended,
    ready: () => waitFor("the fleet is ready", () => out.includes("\n") && out, 20_000),
  };
}

const foldersLeft = async () =>
  (await readdir(folder)).filter((name) => name.startsWith("takeover-fleet-"));

describe("takeover fleet", () => {
  test("tells in one line that it is ready, listens from its first port on, and ends when its input closes", async () => {
    // Below the ports that systems give away by themselves, so that the next two are free as well.
    const base = 20_000 + (process.pid % 10_000);
    const running = fleet([`--port-base=${base}`, `--journal=${folder}/journal`]);
    expect(await running.ready()).toBe(
      `ready: 3 simulated machines, 0 of them faulty, on 127.0.0.1, ports ${base} to ${base + 2}\n`,
    );
    const machines = readJournal(`${folder}/journal`);
    expect(machines.map((entry) => entry.event === "machine" && entry.port)).toEqual([
      base,
      base + 1,
      base + 2,
    ]);
    const socket = net.connect(base + 1, "127.0.0.1");
    const [banner] = await within(
      "a machine greets",
      5_000,
      new Promise<Buffer[]>((resolve) => socket.once("data", (data) => resolve([data]))),
    );
    expect(String(banner)).toMatch(/^SSH-2\.0-/);
    running.child.stdin.end();
    expect(await within("the fleet ends", 10_000, running.ended)).toBe(0);
    socket.destroy();
    expect(await foldersLeft()).toEqual([]);
  });

  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)("ends on %s, exit 0", async (signal) => {
    const running = fleet([]);
    await running.ready();
    running.child.kill(signal);
    expect(await within("the fleet ends", 10_000, running.ended)).toBe(0);
    expect(await foldersLeft()).toEqual([]);
  });

  test("inserts its machines where it is told to register them, and corrects them the next time", async () => {
    const database = await createDatabase();
    try {
      const ports = async () =>
        (
          await database.query<{ port: number }>(
            "select ssh_port as port from bmdb.machine_provided order by provider_id",
          )
        ).map(({ port }) => port);
      const flags = ["--register", `--journal=${folder}/journal`];
      const environment = { DATABASE_URL: await database.urlAs("takeover_inventory") };
      for (const round of [1, 2]) {
        const running = fleet(flags, environment);
        await running.ready();
        const told = readJournal(`${folder}/journal`)
          .filter((entry) => entry.event === "machine")
          .slice(-3);
        expect(await ports(), `round ${round}`).toEqual(told.map(({ port }) => port));
        running.child.stdin.end();
        await within("the fleet ends", 10_000, running.ended);
      }
      expect(await database.query("select from bmdb.takeover_jobs")).toHaveLength(3);
    } finally {
      await database.drop();
    }
  });
});

describe("takeover fleet refuses, in one sentence and with exit code 2,", () => {
  test.each<[string, string[], RegExp]>([
    ["a fleet without a key", ["--machines=1"], /--authorized-key is missing/],
    [
      "more faulty machines than there are",
      ["--machines=2", "--faulty=3", "--authorized-key=KEY.pub"],
      /--faulty: there are only 2 machines/,
    ],
    [
      "ports beyond the last",
      ["--machines=10", "--port-base=65530", "--authorized-key=KEY.pub"],
      /--port-base: 10 ports from 65530 on go beyond 65535/,
    ],
    ["a private key for a public one", ["--authorized-key=KEY"], /holds no public key/],
    [
      "to register nowhere",
      ["--register", "--authorized-key=KEY.pub"],
      /--register needs a database/,
    ],
    [
      "an agent that is not there",
      ["--in-process-agent=/nowhere/agent", "--authorized-key=KEY.pub"],
      /--in-process-agent: .*does not exist/,
    ],
    ["a malformed latency", ["--latency=fast", "--authorized-key=KEY.pub"], /is not a duration/],
  ])("%s", async (_name, flags, sentence) => {
    const ran = await takeoverHere(["fleet", ...flags.map((flag) => flag.replace("KEY", key))]);
    expect(ran.code).toBe(2);
    expect(ran.err).toHaveLength(1);
    expect(ran.err[0]).toMatch(sentence);
  });

  test("a port that is taken", async () => {
    const server = net.createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as net.AddressInfo;
    const ran = await takeover(["fleet", `--port-base=${port}`, `--authorized-key=${key}.pub`]);
    server.close();
    expect(ran.code).toBe(2);
    expect(ran.err).toEqual([
      `takeover: --port-base: port ${port} on 127.0.0.1 cannot be had (EADDRINUSE); choose other ports.`,
    ]);
  });

  test("a database without a schema, with exit code 3", async () => {
    const database = await createDatabase({ migrated: false });
    const ran = await takeover(["fleet", "--register", `--authorized-key=${key}.pub`], {
      DATABASE_URL: database.url,
    });
    await database.drop();
    expect(ran.code).toBe(3);
    expect(ran.err[0]).toMatch(/takeover migrate/);
  });
});
