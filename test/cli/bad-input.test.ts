import { spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKeyPair } from "../../src/ssh/keygen.js";
import { MAIN, takeover, takeoverHere } from "./command-line.js";

const folder = mkdtempSync(join(tmpdir(), "takeover-bad-input-"));
afterAll(() => rmSync(folder, { recursive: true }));

const path = (name: string) => join(folder, name);
const file = (name: string, content: string, mode = 0o644) => {
  writeFileSync(path(name), content, { mode });
  return path(name);
};

/** For root no file is unreadable: then `nobody` runs the program, if it can read the checkout at all. */
const NOBODY = 65534;
const readers =
  process.getuid?.() !== 0
    ? "self"
    : spawnSync(process.execPath, [MAIN, "--version"], { uid: NOBODY, gid: NOBODY }).status === 0
      ? "nobody"
      : "none";

const SECRET = "hunter2";
const sound: Record<string, string> = {};

beforeAll(() => {
  chmodSync(folder, 0o755);
  createKeyPair(path("key"), "test");
  Object.assign(sound, {
    // Nothing listens there, and nothing must ask: these faults come before any connection.
    DATABASE_URL: `postgres://takeover:${SECRET}@127.0.0.1:1/bmdb`,
    TAKEOVER_AGENT_EXECUTABLE_PATH: file("agent", "#!/bin/sh\n"),
    TAKEOVER_AGENT_ENDPOINT: "control.example:8443",
    TAKEOVER_SSH_KEY_PATH: path("key"),
    TAKEOVER_HTTP_PORT: "0",
  });
});

/** Runs a worker that has one thing wrong, and gives the one sentence it says of that. */
async function sentence(env: Record<string, string>, args: string[] = []): Promise<string> {
  const ran = await takeoverHere(["worker", ...args], { ...sound, ...env });
  expect(ran.code).toBe(2);
  expect(ran.out).toBe("");
  expect(ran.err).toHaveLength(1);
  expect(ran.err[0]).toMatch(/^takeover: .*[;:] .*\.$/);
  expect(ran.err[0]).not.toContain(SECRET);
  return ran.err[0] ?? "";
}

describe("a worker says in one sentence what is wrong with", () => {
  it.each([
    ["absent", () => path("nowhere"), "does not exist"],
    ["empty", () => file("empty", ""), "is empty"],
    ["a directory", () => folder, "is a directory"],
  ])("an agent executable that is %s", async (_, given, problem) => {
    const said = await sentence({}, ["--agent-executable-path", given()]);
    expect(said).toMatch(/^takeover: --agent-executable-path: /);
    expect(said).toContain(problem);
  });

  it("a public key where the private one is wanted", async () => {
    expect(await sentence({}, ["--ssh-key-path", path("key.pub")])).toBe(
      `takeover: --ssh-key-path: "${path("key.pub")}" holds a public key; give the private one, mostly the same path without .pub.`,
    );
  });

  it("a key that a passphrase locks, or another opens", async () => {
    const { privateKey } = generateKeyPairSync("ed25519");
    const locked = file(
      "locked",
      privateKey
        .export({ type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "right" })
        .toString(),
    );
    expect(await sentence({ TAKEOVER_SSH_KEY_PATH: locked })).toBe(
      `takeover: --ssh-key-path (from TAKEOVER_SSH_KEY_PATH): "${locked}" is locked by a passphrase; set TAKEOVER_SSH_KEY_PASSPHRASE or TAKEOVER_SSH_KEY_PASSPHRASE_FILE.`,
    );
    const wrong = { TAKEOVER_SSH_KEY_PATH: locked, TAKEOVER_SSH_KEY_PASSPHRASE: SECRET };
    expect(await sentence(wrong)).toContain("does not open with the passphrase given");
    const absent = { TAKEOVER_SSH_KEY_PATH: locked, TAKEOVER_SSH_KEY_PASSPHRASE_FILE: "/nowhere" };
    expect(await sentence(absent)).toContain('TAKEOVER_SSH_KEY_PASSPHRASE_FILE): "/nowhere" does');
  });

  it.skipIf(readers === "none").each([
    ["the key", "--ssh-key-path"],
    ["the executable", "--agent-executable-path"],
    ["the certificate", "--agent-ca-certificate-path"],
  ])(
    `a file that it cannot read: %s${readers === "none" ? " (skipped: root reads all)" : ""}`,
    async (_, flag) => {
      const unreadable = file("unreadable", "x", 0o000);
      chmodSync(path("key"), 0o644);
      const ran = await takeover(
        ["worker", flag, unreadable],
        sound,
        readers === "nobody" ? NOBODY : undefined,
      );
      chmodSync(path("key"), 0o600);
      rmSync(unreadable);
      expect(ran.code).toBe(2);
      expect(ran.err).toHaveLength(1);
      expect(ran.err[0]).toMatch(new RegExp(`^takeover: ${flag}: .*cannot be read.*; `));
    },
  );

  it.each([
    ["--attempt-timeout", "soon", "is not a duration; write it like 250ms, 2s, 1m30s, 36h or 90d."],
    ["--attempt-timeout", "30", "has no unit; write it like 250ms, 2s, 1m30s, 36h or 90d."],
    ["--upload-stall-timeout", "0s", "is zero; give a duration above zero."],
    [
      "--host-key-policy",
      "yolo",
      "is not a host key policy; choose one of accept-new, pinned, insecure.",
    ],
  ])("%s %s", async (flag, value, rest) => {
    expect(await sentence({}, [flag, value])).toBe(`takeover: ${flag}: "${value}" ${rest}`);
  });

  it("a value from the environment, and names its variable", async () => {
    expect(await sentence({ TAKEOVER_CONCURRENCY: "many" })).toBe(
      'takeover: --concurrency (from TAKEOVER_CONCURRENCY): "many" is not a whole number; give one from 1 to 1000.',
    );
  });

  it.each([
    "nonsense",
    `mysql://u:${SECRET}@db/x`,
    `postgres://u:${SECRET}@db:port/x`,
    `postgres://u:${SECRET}#@db/x`,
    `postgres://u:${SECRET}@/x`,
  ])("a database URL, without quoting it: %s", async (url) => {
    expect(await sentence({ DATABASE_URL: url })).toMatch(
      /^takeover: --database-url \(from DATABASE_URL\) .*postgres:\/\/user:password@host/,
    );
  });

  it("a certificate", async () => {
    expect(await sentence({}, ["--agent-ca-certificate-path", path("agent")])).toContain(
      "holds no certificate that can be read; give one in PEM or DER.",
    );
  });

  it("a busy HTTP port", async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    const address = taken.address();
    const port = typeof address === "object" ? String(address?.port) : "";
    const ran = await takeover(["worker", "--http-port", port], sound);
    taken.close();
    expect(ran.code).toBe(2);
    expect(ran.err).toEqual([
      `takeover: --http-port: ${port} on 127.0.0.1 is in use by another program; choose another, or 0 to turn it off.`,
    ]);
  });
});

describe("several faults", () => {
  it("are told together, a line each", async () => {
    const { code, err } = await takeoverHere([
      "worker",
      "--agent-executable-path",
      folder,
      "--ssh-key-path",
      path("key.pub"),
      "--concurrency",
      "0",
      "--attempt-timeout=0s",
      "--database-url",
      `x${SECRET}`,
    ]);
    expect(code).toBe(2);
    expect(err.map((line) => /^takeover: (--[a-z-]+)/.exec(line)?.[1])).toEqual([
      "--database-url",
      "--agent-endpoint",
      "--concurrency",
      "--attempt-timeout",
      "--agent-executable-path",
      "--ssh-key-path",
    ]);
    expect(err.join()).not.toContain(SECRET);
  });
});

describe("migrate", () => {
  it("wants a database URL", async () => {
    expect(await takeoverHere(["migrate"])).toEqual({
      code: 2,
      out: "",
      err: ["takeover: --database-url is missing; give it, or set DATABASE_URL."],
    });
  });
});

describe("a database that cannot be reached", () => {
  it.each(["migrate", "worker"])(
    "ends %s with 3 and one sentence without its password",
    async (command) => {
      const { code, out, err } = await takeover([command], sound);
      expect(code).toBe(3);
      expect(err).toHaveLength(1);
      expect(err[0]).toMatch(/^takeover: .*--database-url/);
      expect(out + err).not.toContain(SECRET);
    },
  );
});
