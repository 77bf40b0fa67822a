import { X509Certificate } from "node:crypto";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ConfigurationFaults } from "../../src/config/exit.js";
import { createKeyPair } from "../../src/ssh/keygen.js";
import { loadWorkerConfiguration } from "../../src/worker/configuration.js";

const CA = fileURLToPath(new URL("../config/ca.pem", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "takeover-configuration-"));
const key = join(folder, "key");
const agent = join(folder, "agent");
let publicLine = "";

beforeAll(() => {
  publicLine = createKeyPair(key, "test");
  writeFileSync(agent, "#!/bin/sh\n");
});
afterAll(() => rmSync(folder, { recursive: true }));

const load = (flags: Record<string, string | true> = {}, env: Record<string, string> = {}) =>
  loadWorkerConfiguration(
    {
      "--database-url": "postgres://takeover@db/bmdb",
      "--agent-executable-path": agent,
      "--agent-endpoint": "control.example:8443",
      "--ssh-key-path": key,
      ...flags,
    },
    env,
  );

async function faults(flags: Record<string, string>, env: Record<string, string> = {}) {
  const error = await load(flags, env).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ConfigurationFaults);
  return error instanceof ConfigurationFaults ? error.faults : [];
}

describe("a worker's configuration", () => {
  it("has the documented defaults, in milliseconds", async () => {
    expect(await load()).toMatchObject({
      databaseUrl: "postgres://takeover@db/bmdb",
      concurrency: 10,
      attemptTimeoutMs: 900_000,
      shutdownGraceMs: 30_000,
      historyRetentionMs: 7_776_000_000,
      http: { address: "127.0.0.1", port: 9464 },
      logLevel: "info",
      warnings: [],
      takeover: {
        targetPath: "/root/agent",
        endpoint: "control.example:8443",
        caCertificate: new Uint8Array(),
        sshUser: "root",
        hostKeyPolicy: "accept-new",
        connectTimeoutMs: 2000,
        handshakeTimeoutMs: 15_000,
        uploadStallTimeoutMs: 15_000,
        execTimeoutMs: 60_000,
        acceptFirstGenerationAgents: false,
        executable: { path: agent, size: 10, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
      },
    });
  });

  it("holds the key and the certificate that its files hold", async () => {
    const { takeover } = await load({ "--agent-ca-certificate-path": CA });
    expect(publicLine).toBe(`${takeover.sshKey.publicLine} test`);
    expect(new X509Certificate(takeover.caCertificate).subject).toBe("CN=takeover test CA");
    expect(Buffer.from(takeover.caCertificate).equals(readFileSync(CA))).toBe(false);
  });

  it("serves no HTTP at port 0", async () => {
    expect((await load({ "--http-port": "0" })).http).toBeNull();
  });

  it("takes a switch", async () => {
    const { takeover } = await load({ "--accept-first-generation-agents": true });
    expect(takeover.acceptFirstGenerationAgents).toBe(true);
  });

  it("warns of what is allowed and yet deserves a second thought", async () => {
    chmodSync(key, 0o644);
    const { warnings } = await load({ "--host-key-policy": "insecure", "--attempt-timeout": "1m" });
    chmodSync(key, 0o600);
    expect(warnings).toEqual([
      "--attempt-timeout (1m) ends an attempt before --agent-ssh-connect-timeout, --ssh-handshake-timeout and --agent-ssh-exec-timeout together (1m17s) can",
      "--host-key-policy insecure: anybody on the way can pose as a machine",
      "--ssh-key-path: every user of this computer can read the private key",
    ]);
  });
});

describe("what is wrong with a configuration", () => {
  it("is told together, whether in an option or in the file that it names", async () => {
    const nowhere = join(folder, "nowhere");
    expect(
      await faults({
        "--agent-executable-path": nowhere,
        "--agent-ca-certificate-path": agent,
        "--ssh-key-path": folder,
        "--concurrency": "0",
      }),
    ).toEqual([
      '--concurrency: "0" is out of range; give a number from 1 to 1000.',
      expect.stringMatching(/^--agent-executable-path: .*nowhere does not exist; give the agent's/),
      `--agent-ca-certificate-path: "${agent}" holds no certificate that can be read; give one in PEM or DER.`,
      `--ssh-key-path: "${folder}" is a directory; give a file.`,
    ]);
  });

  it("is told once: a passphrase that cannot be read, not the key that it would open", async () => {
    expect(await faults({}, { TAKEOVER_SSH_KEY_PASSPHRASE_FILE: "/nowhere" })).toEqual([
      'TAKEOVER_SSH_KEY_PASSPHRASE (from TAKEOVER_SSH_KEY_PASSPHRASE_FILE): "/nowhere" does not exist; check the path.',
    ]);
  });
});
