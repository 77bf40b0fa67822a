import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { TakeoverError } from "../../src/errors.js";
import type { Connection } from "../../src/ssh/connection.js";
import { openConnection } from "../../src/ssh/dial.js";
import type { DialOptions } from "../../src/ssh/dial-options.js";
import { fingerprint, parseHostKey } from "../../src/ssh/host-key.js";
import { dialOptions } from "../support/dialling.js";
import { failureOf } from "../support/rejection.js";
import {
  describeWithSshd,
  generateKey,
  type Sshd,
  type SshdOptions,
  startSshd,
} from "../support/sshd.js";
import { never } from "../support/takeover-scene.js";

describeWithSshd("dialling a real OpenSSH server", () => {
  let sshd: Sshd;
  const open: Connection[] = [];

  const start = async (options: SshdOptions = {}) => {
    sshd = await startSshd(options);
  };
  const dial = async (changes: Partial<DialOptions> = {}) => {
    const connection = await openConnection(
      dialOptions(sshd.port, { key: sshd.clientKey, ...changes }),
      never(),
    );
    open.push(connection);
    return connection;
  };
  const known = (recorded: string | null | undefined, required: string | null = null) => ({
    hostKey: { policy: "accept-new" as const, required, recorded: recorded ?? null },
  });

  afterEach(async () => {
    await Promise.all(open.splice(0).map((connection) => connection.close()));
    await sshd.stop();
  });

  it("logs in, shows the host key, and closes within a second", async () => {
    await start();
    const connection = await dial();
    expect(connection.hostKey).toBe(sshd.hostKeys.ed25519);
    expect(connection.hostKeyDecision).toBe("new");
    const begun = performance.now();
    await connection.close();
    expect(performance.now() - begun).toBeLessThan(1000);
    expect(connection.lost).toBeDefined();
  });

  it("encrypts with AES-GCM, under strict key exchange", async () => {
    await start({ config: ["LogLevel DEBUG3"] });
    await dial();
    expect(sshd.log()).toMatch(/kex: client->server cipher: aes\d+-gcm@openssh\.com/);
    expect(sshd.log()).toMatch(/will use strict KEX ordering/);
  });

  it.each([["all algorithms"], ["rsa-sha2-512"], ["rsa-sha2-256"]])(
    "logs in with an RSA key where the server takes %s",
    async (algorithm) => {
      const config = algorithm.startsWith("rsa") ? [`PubkeyAcceptedAlgorithms ${algorithm}`] : [];
      await start({ clientKey: "rsa", config: [...config, "LogLevel DEBUG2"] });
      await dial();
      expect(sshd.log()).toMatch(/Accepted publickey/);
    },
  );

  it("says that the login was refused where the server takes no key of that type", async () => {
    await start({ clientKey: "rsa", config: ["PubkeyAcceptedAlgorithms ssh-ed25519"] });
    const failure = await failureOf(dial());
    expect(failure.code).toBe("TAKEOVER_DIAL_AUTH_FAILED");
    expect(failure.message).toMatch(/does not accept the key \(ssh-rsa\) for user .*key type/);
  });

  it("retries a login that is refused while the machine boots, also past new host keys", async () => {
    await start({ authorize: () => "" });
    const refused = await failureOf(dial());
    expect(refused.code).toBe("TAKEOVER_DIAL_AUTH_FAILED");
    expect(refused.retryClass).toBe("machine");

    // cloud-init writes new host keys, installs the key, and starts sshd anew on the same port.
    const { port, clientKey, hostKeys } = sshd;
    await sshd.stop();
    await start({ port, authorize: () => clientKey.publicLine, newHostKeys: true });
    // Nothing was recorded, for only a takeover that succeeds records.
    const connection = await dial({ key: clientKey });
    expect(connection.hostKey).not.toBe(hostKeys.ed25519);
    expect(connection.hostKeyDecision).toBe("new");
  });

  it("takes the recorded key though the server would rather show another", async () => {
    await start({ hostKeys: ["ed25519", "ecdsa", "rsa"] });
    for (const type of ["ed25519", "ecdsa", "rsa"] as const) {
      const connection = await dial(known(sshd.hostKeys[type]));
      expect(connection.hostKey).toBe(sshd.hostKeys[type]);
      expect(connection.hostKeyDecision).toBe("matched");
    }
  });

  it("refuses a changed key, naming both fingerprints, and does not log in", async () => {
    await start();
    const other = generateKey(join(sshd.folder, "other"), "ed25519").publicLine;
    const failure = await failureOf(dial(known(other)));
    expect(failure.code).toBe("TAKEOVER_DIAL_HOST_KEY_CHANGED");
    expect(failure.retryClass).toBe("record");
    expect(failure.message).toContain(shown(sshd.hostKeys.ed25519));
    expect(failure.message).toContain(shown(other));
    expect(sshd.log()).not.toMatch(/Accepted publickey/);
  });

  it("refuses a server that has no key of the recorded type any more", async () => {
    await start();
    const other = generateKey(join(sshd.folder, "other"), "ecdsa").publicLine;
    const failure = await failureOf(dial(known(other)));
    expect(failure.code).toBe("TAKEOVER_DIAL_HOST_KEY_CHANGED");
    expect(failure.message).toContain(shown(other));
  });

  it("wants the row's key even under insecure", async () => {
    await start();
    const other = generateKey(join(sshd.folder, "other"), "ed25519").publicLine;
    const hostKey = { policy: "insecure" as const, required: other, recorded: null };
    expect((await failureOf(dial({ hostKey }))).code).toBe("TAKEOVER_DIAL_HOST_KEY_CHANGED");
    const connection = await dial({
      hostKey: { policy: "insecure", required: null, recorded: other },
    });
    expect(connection.hostKeyDecision).toBe("unchecked");
  });

  it("does not even connect to a stranger under pinned", async () => {
    await start();
    const hostKey = { policy: "pinned" as const, required: null, recorded: null };
    expect((await failureOf(dial({ hostKey }))).code).toBe("TAKEOVER_DIAL_HOST_KEY_MISSING");
    expect(sshd.log()).not.toMatch(/Connection from/);
  });

  it("calls connections that are dropped under load closed, and the rest get in", async () => {
    await start({ config: ["MaxStartups 2:100:3", "LoginGraceTime 20"] });
    const dialled = await Promise.allSettled(Array.from({ length: 20 }, () => dial()));
    const failures = dialled.filter((result) => result.status === "rejected");
    expect(failures.length).toBeGreaterThan(0);
    expect(failures.length).toBeLessThan(20);
    for (const { reason } of failures) {
      expect(reason).toBeInstanceOf(TakeoverError);
      expect(reason).toMatchObject({ code: "TAKEOVER_DIAL_CLOSED", retryClass: "machine" });
    }
  });

  it("passes on the banner of a server that refuses the login", async () => {
    const folder = await mkdtemp(join(tmpdir(), "takeover-banner-"));
    const banner = join(folder, "banner");
    await writeFile(banner, "Closed for maintenance\n");
    await start({ authorize: () => "", config: [`Banner ${banner}`] });
    const failure = await failureOf(dial());
    expect(failure.code).toBe("TAKEOVER_DIAL_AUTH_FAILED");
    expect(failure.message).toContain('the peer said "Closed for maintenance"');
    await rm(folder, { recursive: true });
  });
});

function shown(line: string | undefined): string {
  const key = parseHostKey(line ?? "");
  return key === null ? "no key" : fingerprint(key);
}
