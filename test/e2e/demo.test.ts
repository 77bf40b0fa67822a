import { type ChildProcess, spawn } from "node:child_process";
import { chmod, mkdtemp, readdir, rm } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { processesOf } from "../demo/leftovers.js";
import { createDatabase, type TestDatabase } from "../support/postgres.js";
import { waitFor, within } from "../support/wait.js";
import { TAKEOVER } from "../support/worker-process.js";

// The demo as somebody runs it: a process, with everything real below it.

let folder: string;
let demos: ChildProcess[];

beforeEach(async () => {
  demos = [];
  folder = await mkdtemp(path.join(tmpdir(), "takeover-demo-test-"));
  // Root's demo runs its Postgres as another user, who works in here, too.
  await chmod(folder, 0o777);
});

afterEach(async () => {
  for (const demo of demos) {
    demo.kill("SIGKILL");
  }
  await waitFor("everything has ended", () => processesOf(folder).length === 0, 30_000);
  await rm(folder, { recursive: true, force: true });
});

interface RunningDemo {
  readonly process: ChildProcess;
  readonly ended: Promise<number | null>;
  said(): string;
}

function demo(flags: string[], environment: Record<string, string> = {}): RunningDemo {
  const child = spawn(process.execPath, [TAKEOVER, "demo", ...flags], {
    env: { PATH: process.env.PATH, TMPDIR: folder, LANG: "C.UTF-8", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  demos.push(child);
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
  }
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  return { process: child, ended, said: () => said };
}

const says = (running: RunningDemo, words: string) =>
  waitFor(
    `the demo says "${words}"`,
    () => {
      if (running.process.exitCode !== null) {
        throw new Error(`the demo ended: ${running.said()}`);
      }
      return running.said().includes(words);
    },
    60_000,
  );

/** Every port that the demo told of. */
const portsIn = (text: string) =>
  [...text.matchAll(/127\.0\.0\.1(?::|', )(\d+)/g)].map((found) => Number(found[1]));

const isOpen = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = net.connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true));
    socket.once("error", () => resolve(false));
    socket.once("close", () => socket.destroy());
  });

async function nothingIsLeft(said: string): Promise<void> {
  await waitFor("no process is left", () => processesOf(folder).length === 0, 20_000);
  await waitFor("no file is left", async () => (await readdir(folder)).length === 0, 20_000).catch(
    async (cause: unknown) => {
      const left = await readdir(folder, { recursive: true });
      throw new Error(`left behind: ${left.slice(0, 20).join(", ")}`, { cause });
    },
  );
  for (const port of portsIn(said)) {
    expect(await isOpen(port), `port ${port}`).toBe(false);
  }
}

describe("takeover demo", () => {
  test("takes a fleet over, tells what came of it, exits 0 and leaves nothing", async () => {
    const running = demo(["--machines=9", "--faulty=2", "--workers=2"]);
    expect(await within("the demo ends", 60_000, running.ended), running.said()).toBe(0);
    const said = running.said();
    expect(said).toContain("insert into bmdb.machine_provided");
    const started = /^ {2}[0-9a-f]{8} {2}sim-10-\d +[0-9a-f]{16}… +\d+ +\d+\.\d +[12]$/gm;
    expect(said.match(started)).toHaveLength(7);
    expect(said.match(/^ {2}sim-10-\d +\S+ +TAKEOVER_\S+ +in \d+ (s|min)$/gm)).toHaveLength(2);
    expect(said).toMatch(/7 of 9 machines taken over in \d+\.\d s, \d+\.\d per second/);
    expect(said).toContain("Each key on record is the one that the machine's agent holds.");
    expect(said).not.toContain("\x1b");
    for (const line of said.split("\n")) {
      expect(line.length, line).toBeLessThanOrEqual(80);
    }
    await nothingIsLeft(said);
  }, 90_000);

  test("tells under --keep how to look around, and leaves nothing after Ctrl-C", async () => {
    const running = demo(["--machines=2", "--workers=1", "--keep"]);
    await says(running, "journal.jsonl");
    expect(running.said()).toMatch(
      /psql 'postgres:\/\/postgres:[0-9a-f]+@127\.0\.0\.1:\d+\/postgres'/,
    );
    const metrics = /http:\/\/127\.0\.0\.1:\d+\/metrics/.exec(running.said())?.[0] ?? "";
    const answer = await fetch(metrics, { signal: AbortSignal.timeout(5_000) });
    expect(await answer.text()).toContain("takeover_attempts_total");
    running.process.kill("SIGINT");
    expect(await within("the demo ends", 20_000, running.ended)).toBe(0);
    await nothingIsLeft(running.said());
  }, 90_000);

  test("leaves nothing when it is killed in the middle of takeovers", async () => {
    const running = demo(["--machines=4", "--workers=1"]);
    await says(running, "running (");
    running.process.kill("SIGKILL");
    await running.ended;
    await nothingIsLeft(running.said());
  }, 90_000);

  test("refuses more faulty machines than there are, before it starts anything", async () => {
    const running = demo(["--machines=2", "--faulty=3"]);
    expect(await within("the demo ends", 20_000, running.ended)).toBe(2);
    expect(running.said()).toMatch(/--faulty: there are only 2 machines/);
  });
});

describe("takeover demo on a database of somebody else", () => {
  let database: TestDatabase;
  let environment: Record<string, string>;

  beforeEach(async () => {
    database = await createDatabase({ migrated: false });
    environment = { TAKEOVER_DEMO_DATABASE_URL: database.url };
  });

  afterEach(() => database.drop());

  const logins = () =>
    database.query(
      `select from pg_roles where rolname like 'takeover\\_demo\\_%'
         and oid in (select usesysid from pg_stat_activity where datname = current_database())`,
    );

  async function nothingIsLeftInIt(): Promise<void> {
    expect(await logins()).toEqual([]);
    for (const table of [
      "bmdb.machines",
      "bmdb.work_history",
      "bmdb.sessions",
      "graphile_worker.jobs",
    ]) {
      expect(await database.query(`select from ${table}`), table).toEqual([]);
    }
  }

  test("exits 1 and says what is wrong where the time is up, and takes all of its own out", async () => {
    const running = demo(["--machines=2", "--workers=1", "--timeout=1ms"], environment);
    expect(await within("the demo ends", 60_000, running.ended), running.said()).toBe(1);
    expect(running.said()).toMatch(/not as it must be:\n {2}- sim-\d+-1 has no key on record/);
    await nothingIsLeft("");
    await nothingIsLeftInIt();
  }, 90_000);

  test("takes all of its own out also when it is killed", async () => {
    const running = demo(["--machines=4", "--workers=1"], environment);
    await says(running, "running (");
    expect(await logins()).toHaveLength(1);
    running.process.kill("SIGKILL");
    await running.ended;
    await nothingIsLeft("");
    await nothingIsLeftInIt();
  }, 90_000);

  test.each(["SIGTERM", "SIGHUP"] as const)(
    "ends with exit code 1 on %s while it starts, and leaves nothing",
    async (signal) => {
      const running = demo(["--machines=1", "--workers=1"], environment);
      await says(running, "migrated");
      running.process.kill(signal);
      expect(await within("the demo ends", 30_000, running.ended)).toBe(1);
      expect(running.said()).toContain(`Stopping: received ${signal}`);
      await nothingIsLeft("");
      await nothingIsLeftInIt();
    },
    60_000,
  );

  test("leaves nothing when the npm that started it is killed, which passes no signal on", async () => {
    const npm = spawn(
      "/bin/sh",
      [
        "-c",
        // Between npm and what it runs stands a shell, which outlives it.
        `/bin/sh -c '"$@"; exit $?' sh "$@" & wait`,
        "npm",
        process.execPath,
        TAKEOVER,
        "demo",
        "--machines=1",
        "--workers=1",
        "--keep",
      ],
      {
        env: {
          PATH: process.env.PATH,
          TMPDIR: folder,
          npm_lifecycle_event: "demo",
          ...environment,
        },
        stdio: ["ignore", "pipe", "ignore"],
      },
    );
    demos.push(npm);
    let said = "";
    npm.stdout.on("data", (text) => {
      said += text;
    });
    await waitFor("the demo has come to its end", () => said.includes("journal.jsonl"), 30_000);
    npm.kill("SIGKILL");
    await nothingIsLeft("");
    await nothingIsLeftInIt();
  }, 90_000);

  test("exits 3 where it cannot be reached, and leaves nothing", async () => {
    const running = demo([], { TAKEOVER_DEMO_DATABASE_URL: "postgres://x@127.0.0.1:1/none" });
    expect(await within("the demo ends", 30_000, running.ended)).toBe(3);
    expect(running.said()).toMatch(/the database cannot be reached: .*ECONNREFUSED/);
    await nothingIsLeft("");
  }, 60_000);
});
