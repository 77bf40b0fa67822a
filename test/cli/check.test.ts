import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findingLine, verdictLine } from "../../src/cli/check-view.js";
import { screenFor } from "../../src/demo/screen.js";
import { createKeyPair } from "../../src/ssh/keygen.js";
import { createDatabase, useDatabase } from "../support/postgres.js";
import type { Sshd } from "../support/sshd.js";
import { describeWithSshd, freePort, generateKey, SSH_USER, startSshd } from "../support/sshd.js";
import { tcpPeer } from "../support/tcp-peer.js";
import { waitFor, within } from "../support/wait.js";
import { MAIN, takeoverHere } from "./command-line.js";

const folder = mkdtempSync(join(tmpdir(), "takeover-check-cli-"));
const agent = join(folder, "agent");
const key = join(folder, "key");
const STRANGER = "7b0e7f0e-4a6c-4f56-9c0a-3d1f0f2f9a10";

beforeAll(() => {
  writeFileSync(agent, "#!/bin/sh\n");
  createKeyPair(key, "test");
});
afterAll(() => rmSync(folder, { recursive: true }));

describeWithSshd("takeover check", () => {
  const database = useDatabase();
  let sshd: Sshd;
  let operator: string;
  beforeAll(async () => {
    sshd = await startSshd();
    operator = await database.urlAs("takeover_operator");
  });
  afterAll(() => sshd.stop());

  const check = (args: readonly string[], env: Record<string, string> = {}) =>
    takeoverHere(["check", ...args], {
      TAKEOVER_AGENT_EXECUTABLE_PATH: agent,
      TAKEOVER_AGENT_TARGET_PATH: join(folder, "machine", "agent"),
      TAKEOVER_SSH_KEY_PATH: join(sshd.folder, "client"),
      TAKEOVER_SSH_USER: SSH_USER,
      DATABASE_URL: operator,
      ...env,
    });

  /** A machine that is provided, behind the server. */
  async function provide(row: { hostKey?: string; user?: string } = {}): Promise<string> {
    const [machine] = await database.query<{ id: string }>(
      "insert into bmdb.machines default values returning machine_id as id",
    );
    await database.query(
      `insert into bmdb.machine_provided
         (machine_id, provider, provider_id, provider_ip_address, ssh_port, ssh_host_key, ssh_user)
       values ($1, 'static', 'rack 7', '127.0.0.1', $2, $3, $4)`,
      [machine?.id, sshd.port, row.hostKey ?? null, row.user ?? null],
    );
    return machine?.id ?? "";
  }

  it("tells in a line per finding that all is well, and ends with 0", async () => {
    const { code, out, err } = await check(["--address", `127.0.0.1:${sshd.port}`]);
    expect(err).toEqual([]);
    const lines = out.trimEnd().split("\n");
    expect(lines.slice(0, -1).map((line) => line.slice(0, 17))).toEqual([
      "ok    locate     ",
      "ok    dial       ",
      "ok    login      ",
      "ok    shell      ",
      "ok    processor  ",
      "ok    sftp       ",
      "ok    target     ",
      "ok    space      ",
      "ok    tools      ",
      "ok    start-up   ",
      "ok    execution  ",
    ]);
    expect(lines.at(-1)).toMatch(/^A takeover would succeed/);
    expect(code).toBe(0);
  });

  it("gives the code of what a takeover would fail with, and ends with 1", async () => {
    const { code, out } = await check(["--address", `127.0.0.1:${await freePort()}`]);
    expect(out).toMatch(/^FAIL {2}dial {7}TAKEOVER_DIAL_REFUSED: /m);
    expect(out).toMatch(/^- {5}sftp {7}not checked$/m);
    expect(out).toMatch(/^A takeover would fail with TAKEOVER_DIAL_REFUSED; .*\n$/m);
    expect(code).toBe(1);
  });

  it("wants no database for a dry try, not even a sound URL", async () => {
    const { code } = await check(["--address", `127.0.0.1:${sshd.port}`], { DATABASE_URL: "x" });
    expect(code).toBe(0);
  });

  it("tries a machine on record as its row says, and leaves the database as it was", async () => {
    const id = await provide();
    const facts = () =>
      database.query(
        `select (select count(*) from bmdb.work_history) as history,
                (select count(*) from bmdb.machine_ssh_host_key) as keys,
                (select array_agg(job) from graphile_worker._private_jobs as job) as jobs,
                (select array_agg(row) from bmdb.machine_provided as row) as provided`,
      );
    const before = await facts();
    const { code, out } = await check([id.toUpperCase()]);
    expect(out).toMatch(/^ok {4}record {5}provided by static as "rack 7"$/m);
    expect(out).toMatch(/^ok {4}dial {7}127\.0\.0\.1:\d+, .*, the first one it shows$/m);
    expect(code).toBe(0);
    expect(await facts()).toEqual(before);
  });

  it("goes by the row's host key and user", async () => {
    const { publicLine } = generateKey(join(folder, "other"), "ed25519");
    const another = await check([await provide({ hostKey: publicLine })]);
    expect(another.out).toContain("TAKEOVER_DIAL_HOST_KEY_CHANGED");
    expect(another.code).toBe(1);
    await database.reset();
    const nobody = await check([await provide({ user: "nobody-at-all" })]);
    expect(nobody.out).toMatch(/^FAIL {2}login {6}TAKEOVER_DIAL_AUTH_FAILED: .*nobody-at-all/m);
  });

  it("dials nobody for a machine that is unknown, or not provided", async () => {
    const [unprovided] = await database.query<{ id: string }>(
      "insert into bmdb.machines default values returning machine_id as id",
    );
    for (const [id, text] of [
      [STRANGER, "no machine has this id"],
      [unprovided?.id ?? "", "not provided"],
    ] as const) {
      const { code, out } = await check([id]);
      expect(out).toMatch(new RegExp(`^FAIL {2}record {5}${text}`));
      expect(out.match(/not checked$/gm)).toHaveLength(11);
      expect(out).toMatch(/^No takeover would be tried\.\n$/m);
      expect(code).toBe(1);
    }
  });

  it.each([
    [
      "held",
      "select bmdb.hold_takeover($1, E'disk\\nswap')",
      /held: disk swap; .*release_takeover/,
    ],
    [
      "paused with its provider",
      "insert into bmdb.provider_pause (provider, reason) select 'static', 'move' where $1::uuid is not null",
      /provider static is paused: move/,
    ],
    [
      "taken over already",
      `insert into bmdb.machine_agent_started (machine_id, agent_started_at, agent_public_key)
       values ($1, '2026-02-03 04:05:06.7+00', decode(repeat('ab', 32), 'hex'))`,
      /its agent is on record since 2026-02-03T04:05:06Z: .*machine_agent_started/,
    ],
    [
      "installed",
      `with request as (
         insert into bmdb.machine_os_installation_request values ($1, 1, '') returning machine_id
       )
       insert into bmdb.machine_os_installation_report
         (machine_id, generation, os_installation_result, os_installation_report_raw)
       select machine_id, 1, 'Success', '' from request`,
      /installation of its system/,
    ],
  ])("tries a machine that is %s, and says that no takeover would", async (_what, sql, text) => {
    const id = await provide();
    await database.query(sql, [id]);
    const { code, out } = await check([id]);
    expect(/^FAIL {2}record {5}(.*)$/m.exec(out)?.[1]).toMatch(text);
    expect(out).toMatch(/^ok {4}execution /m);
    expect(out).toMatch(/^No takeover would be tried\.\n$/m);
    expect(code).toBe(1);
  });

  it("remarks when a backoff ends, and that a worker is at it", async () => {
    const id = await provide();
    await database.query(
      `insert into bmdb.work_backoff (machine_id, process, kind, until, cause, code, last_interval_seconds)
       values ($1, 'takeover', 'failure', clock_timestamp() + interval '125 s', 'x', 'TAKEOVER_DIAL_REFUSED', 60)`,
      [id],
    );
    const { code, out } = await check([id]);
    expect(out).toMatch(/^note {2}record {5}not before 2m[45]s from now$/m);
    expect(code).toBe(0);
    await database.query(
      `insert into bmdb.sessions (session_id, component_name, runtime_info, pool_id, interval_seconds, deadline)
       values (gen_random_uuid(), 'test', '', 'pool', 4, clock_timestamp() + interval '1 min')`,
    );
    await database.query(
      "update graphile_worker._private_jobs set locked_by = 'pool', locked_at = now()",
    );
    expect((await check([id])).out).toMatch(/^note {2}record {5}a worker has it in hand/m);
  });

  it("ends with 3 where the database cannot say, and names the remedy", async () => {
    const empty = await createDatabase({ migrated: false });
    const cases = [
      [empty.url, /run takeover migrate/],
      [await database.urlAs("takeover_inventory"), /member of takeover_operator/],
      [`postgres://u:hunter2@127.0.0.1:${await freePort()}/x`, /cannot be reached/],
    ] as const;
    for (const [url, remedy] of cases) {
      const { code, out, err } = await check([STRANGER], { DATABASE_URL: url });
      expect(err).toEqual([expect.stringMatching(remedy)]);
      expect(err[0]).not.toContain("hunter2");
      expect(out).toBe("");
      expect(code).toBe(3);
    }
    await empty.drop();
  });
});

describe("takeover check refuses, with 2 and before any connection,", () => {
  const sound = { TAKEOVER_AGENT_EXECUTABLE_PATH: agent, TAKEOVER_SSH_KEY_PATH: key };

  it.each<[string, string[], RegExp]>([
    ["nothing to check", [], /MACHINE is missing; give a machine's id, or --address/],
    ["two things", [STRANGER, "--address=127.0.0.1"], /MACHINE and --address are both given; /],
    ["a machine without a database", [STRANGER], /--database-url is missing; /],
    [
      "what is no id",
      ["rack7", "--database-url=postgres://127.0.0.1:1/x"],
      /MACHINE: "rack7" is not a machine's id; /,
    ],
    ["a name for an address", ["--address=m.example"], /"m\.example" is not an IP address/],
  ])("%s", async (_what, args, sentence) => {
    const { code, out, err } = await takeoverHere(["check", ...args], sound);
    expect(err).toEqual([expect.stringMatching(sentence)]);
    expect(out).toBe("");
    expect(code).toBe(2);
  });

  it("several faults, told together", async () => {
    const { code, err } = await takeoverHere([
      "check",
      "rack7",
      "--agent-executable-path=/nowhere/agent",
      `--ssh-key-path=${key}.pub`,
      "--agent-target-path=agent",
    ]);
    expect(code).toBe(2);
    expect(err.map((line) => /^takeover: (\S+?):? /.exec(line)?.[1])).toEqual([
      "--agent-target-path",
      "--database-url",
      "MACHINE",
      "--agent-executable-path",
      "--ssh-key-path",
    ]);
  });
});

describe("takeover check on Ctrl-C", () => {
  it.each([
    ["the machine", (port: number) => [`--address=127.0.0.1:${port}`]],
    ["the database", (port: number) => [STRANGER, `--database-url=postgres://127.0.0.1:${port}/x`]],
  ])("ends within a second, with 1, while it waits for %s", async (_what, args) => {
    const silent = await tcpPeer(() => {});
    const child = spawn(
      process.execPath,
      [MAIN, "check", ...args(silent.port), `--ssh-key-path=${key}`],
      { env: { TAKEOVER_AGENT_EXECUTABLE_PATH: agent }, stdio: ["ignore", "ignore", "pipe"] },
    );
    let err = "";
    child.stderr.setEncoding("utf8").on("data", (text) => {
      err += text;
    });
    const ended = new Promise((resolve) => child.once("close", resolve));
    await waitFor("it has connected", () => silent.accepted() > 0);
    child.kill("SIGINT");
    expect(await within("it ends", 1000, ended)).toBe(1);
    expect(err).toBe("takeover: received SIGINT; the check was not finished.\n");
    await silent.stop();
  });
});

describe("what a check shows", () => {
  const screen = (isTerminal: boolean, environment: Record<string, string> = {}) =>
    screenFor(() => {}, { isTerminal, columns: () => 40, environment });
  const finding = {
    subject: "space",
    verdict: "fail",
    code: "TAKEOVER_UPLOAD_FAILED",
    text: "the disk is full (1 KiB free, 2 KiB needed)",
  } as const;

  it("goes on below in its column on a terminal, in colour", () => {
    expect(findingLine(screen(true), finding)).toBe(
      [
        "\x1b[31mFAIL\x1b[0m  space      TAKEOVER_UPLOAD_FAILED:",
        "                 the disk is full (1",
        "                 KiB free, 2 KiB",
        "                 needed)",
      ].join("\n"),
    );
    expect(verdictLine(screen(true, { NO_COLOR: "1" }), [finding]).split("\n")).toEqual([
      "A takeover would fail with",
      "TAKEOVER_UPLOAD_FAILED;",
      "docs/failure-codes.md says what to do.",
    ]);
  });

  it("is one plain line elsewhere", () => {
    expect(findingLine(screen(false), finding)).toBe(
      "FAIL  space      TAKEOVER_UPLOAD_FAILED: the disk is full (1 KiB free, 2 KiB needed)",
    );
  });
});
