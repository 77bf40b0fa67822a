import { execFileSync, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe } from "vitest";
import type { PrivateKey } from "../../src/ssh/private-key.js";
import { mayMount } from "./mounts.js";
import { copyKey, freePort, stopTree } from "./sshd.js";
import { waitFor } from "./wait.js";

const DROPBEAR = ["/usr/sbin/dropbear", "/usr/local/sbin/dropbear"].find(existsSync);
/** Where dropbear is built to look for it, and what openssh-server puts there. */
const SFTP_SERVER = "/usr/lib/sftp-server";
const INSTALL = "apt-get install dropbear-bin";

/**
 * Tests that need a real dropbear server. Without one they are reported as skipped, with the line that mends it;
 * under CI that is a failure. They are skipped as well where the tests may not mount: dropbear looks for keys in
 * root's home alone, and that must stay as it is.
 */
export function describeWithDropbear(name: string, tests: () => void): void {
  if (DROPBEAR === undefined) {
    if (process.env.CI) {
      throw new Error(`no dropbear for "${name}": ${INSTALL}`);
    }
    describe.skip(`${name} (needs dropbear: ${INSTALL})`, tests);
  } else if (!mayMount()) {
    describe.skip(`${name} (needs to mount a home for root)`, tests);
  } else {
    describe(name, tests);
  }
}

/** A private dropbear server on 127.0.0.1. */
export interface Dropbear {
  readonly port: number;
  readonly clientKey: PrivateKey;
  /** `<type> <base64>`. */
  readonly hostKey: string;
  log(): string;
  /** Stops it and all of its connections. */
  stop(): Promise<void>;
}

/** @param sftp whether there is a program for SFTP where dropbear looks for it */
export async function startDropbear({ sftp = true } = {}): Promise<Dropbear> {
  const folder = await mkdtemp(join(tmpdir(), "takeover-dropbear-"));
  const home = join(folder, "home");
  await mkdir(join(home, ".ssh"), { recursive: true, mode: 0o700 });
  const client = copyKey(join(folder, "client"), "ed25519");
  await writeFile(join(home, ".ssh", "authorized_keys"), `${client.publicLine}\n`, { mode: 0o600 });
  const hostKeyPath = join(folder, "host_ed25519");
  const made = execFileSync("dropbearkey", ["-t", "ed25519", "-f", hostKeyPath], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const hostKey = /^ssh-ed25519 \S+/m.exec(made)?.[0] ?? "";
  const port = await freePort();
  // Mounts that nobody else sees: dropbear has no option for where the keys are, nor for what serves SFTP.
  const mounts = [
    'mount --bind "$1" /root',
    ...(sftp ? [] : [`[ ! -e ${SFTP_SERVER} ] || mount --bind /dev/null ${SFTP_SERVER}`]),
  ];
  const server = `exec ${DROPBEAR} -F -E -m -s -p 127.0.0.1:${port} -r ${hostKeyPath} -P ${join(folder, "pid")}`;
  const child = spawn(
    "unshare",
    ["--mount", "/bin/sh", "-ec", [...mounts, server].join("; "), "sh", home],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    log += text;
  });
  await waitFor("dropbear listens", () => {
    if (child.exitCode !== null) {
      throw new Error(`dropbear exited ${child.exitCode}: ${log}`);
    }
    return answers(port);
  });
  return {
    port,
    clientKey: client.key,
    hostKey,
    log: () => log,
    async stop() {
      await stopTree(child);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1" }, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
