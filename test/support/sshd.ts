import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { basename, join } from "node:path";
import ssh2, { type ParsedKey } from "ssh2";
import { describe } from "vitest";
import type { PrivateKey } from "../../src/ssh/private-key.js";
import { waitFor } from "./wait.js";

const SSHD = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd"].find(existsSync);
const SFTP_SERVER = [
  "/usr/lib/openssh/sftp-server",
  "/usr/libexec/openssh/sftp-server",
  "/usr/lib/ssh/sftp-server",
  "/usr/libexec/sftp-server",
].find(existsSync);
const INSTALL = "apt-get install openssh-server";

/** The user who runs the tests, and whom sshd lets in. */
export const SSH_USER = userInfo().username;

export type KeyType = "ed25519" | "ecdsa" | "rsa";

/**
 * Tests that need a real OpenSSH server. Without one they are reported as skipped, with the line that mends
 * it; under CI that is a failure, for a gate that skips is none.
 */
export function describeWithSshd(name: string, tests: () => void): void {
  if (SSHD !== undefined) {
    describe(name, tests);
    return;
  }
  if (process.env.CI) {
    throw new Error(`no sshd for "${name}": ${INSTALL}`);
  }
  describe.skip(`${name} (needs sshd: ${INSTALL})`, tests);
}

export interface SshdOptions {
  /** Lines that replace those of ours for the same keyword. */
  readonly config?: readonly string[];
  /** The subsystem's command; null for none. */
  readonly sftp?: string | null;
  readonly hostKeys?: readonly KeyType[];
  /** Host keys that no other server of the tests has. */
  readonly newHostKeys?: boolean;
  readonly clientKey?: KeyType;
  /** A line of authorized_keys, made of the client's public line. */
  readonly authorize?: (publicLine: string) => string;
  /** Files for the home folder that sessions get, by name. */
  readonly home?: Readonly<Record<string, string>>;
  readonly port?: number;
  /** Environment of its sessions, beside HOME. */
  readonly env?: Readonly<Record<string, string>>;
}

/** A private OpenSSH server on 127.0.0.1. */
export interface Sshd {
  readonly port: number;
  readonly clientKey: PrivateKey;
  /** `<type> <base64>` by type. */
  readonly hostKeys: Readonly<Partial<Record<KeyType, string>>>;
  /** A folder of its own, removed when it stops. */
  readonly folder: string;
  /** HOME of its sessions. */
  readonly home: string;
  /** What it logged so far. */
  log(): string;
  /** Process ids of its connections: one each for root, two for other users, whom sshd serves at arm's length. */
  connections(): number[];
  /** Stops it and all of its connections. */
  stop(): Promise<void>;
}

export async function startSshd(options: SshdOptions = {}): Promise<Sshd> {
  if (SSHD === undefined) {
    throw new Error(`no sshd: ${INSTALL}`);
  }
  const folder = await mkdtemp(join(tmpdir(), "takeover-sshd-"));
  const home = join(folder, "home");
  await mkdir(home);
  for (const [name, content] of Object.entries(options.home ?? {})) {
    await writeFile(join(home, name), content);
  }
  const hostKey = options.newHostKeys ? generateKey : copyKey;
  const hostKeys = (options.hostKeys ?? ["ed25519"]).map((type) => ({
    type,
    ...hostKey(join(folder, `host_${type}`), type),
  }));
  const client = copyKey(join(folder, "client"), options.clientKey ?? "ed25519");
  const authorize = options.authorize ?? ((line: string) => line);
  await writeFile(join(folder, "authorized_keys"), `${authorize(client.publicLine)}\n`);
  if (userInfo().uid === 0) {
    // Where sshd separates its privileges; a service unit would have made it.
    mkdirSync("/run/sshd", { recursive: true, mode: 0o755 });
  }
  const sftp = options.sftp === undefined ? SFTP_SERVER : options.sftp;
  const port = options.port ?? (await freePort());
  const config = options.config ?? [];
  const environment = Object.entries(options.env ?? {})
    .map(([name, value]) => ` ${name}=${value}`)
    .join("");
  const keyword = (line: string): string => line.split(" ", 1)[0] ?? "";
  const ours = [
    `Port ${port}`,
    "ListenAddress 127.0.0.1",
    ...hostKeys.map(({ path }) => `HostKey ${path}`),
    `AuthorizedKeysFile ${join(folder, "authorized_keys")}`,
    `PidFile ${join(folder, "sshd.pid")}`,
    "UsePAM no",
    "StrictModes no",
    "PermitRootLogin yes",
    "PasswordAuthentication no",
    "KbdInteractiveAuthentication no",
    "MaxStartups 1000",
    "LogLevel VERBOSE",
    "PrintMotd no",
    // One line: sshd reads no second one.
    `SetEnv HOME=${home}${environment}`,
    ...(sftp == null ? [] : [`Subsystem sftp ${sftp}`]),
  ].filter((line) => !config.map(keyword).includes(keyword(line)));
  // sshd starts itself anew for each connection: the path must be absolute, or every handshake hangs.
  const configPath = join(folder, "sshd_config");
  await writeFile(configPath, `${[...config, ...ours].join("\n")}\n`);
  const child = spawn(SSHD, ["-D", "-e", "-f", configPath], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    log += text;
  });
  await waitFor("sshd listens", () => {
    if (child.exitCode !== null) {
      throw new Error(`sshd exited ${child.exitCode}: ${log}`);
    }
    return log.includes("Server listening");
  });
  return {
    port,
    clientKey: client.key,
    hostKeys: Object.fromEntries(hostKeys.map(({ type, publicLine }) => [type, publicLine])),
    folder,
    home,
    log: () => log,
    connections: () =>
      descendantsOf(child.pid ?? -1)
        .filter(({ name }) => name.startsWith("sshd"))
        .map(({ pid }) => pid),
    async stop() {
      await stopTree(child);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export interface KeyFile {
  readonly path: string;
  readonly publicLine: string;
  /** The private key as the worker would load it. */
  readonly key: PrivateKey;
}

const originals = new Map<string, { readonly content: Buffer } & Omit<KeyFile, "path">>();

/** The same key pair for all files of one name and type: some 250 would be made otherwise, 20 ms each. */
export function copyKey(path: string, type: KeyType): KeyFile {
  const kind = `${basename(path)} ${type}`;
  const original = originals.get(kind);
  if (original === undefined) {
    const made = generateKey(path, type);
    originals.set(kind, { ...made, content: readFileSync(path) });
    return made;
  }
  writeFileSync(path, original.content, { mode: 0o600 });
  return { path, publicLine: original.publicLine, key: original.key };
}

/** A new OpenSSH key pair at `path`. */
export function generateKey(path: string, type: KeyType): KeyFile {
  const bits = type === "rsa" ? ["-b", "2048"] : [];
  execFileSync("ssh-keygen", ["-q", "-t", type, ...bits, "-N", "", "-C", "", "-f", path]);
  const publicLine = readFileSync(`${path}.pub`, "utf8").trim().split(" ").slice(0, 2).join(" ");
  const parsed = ssh2.utils.parseKey(readFileSync(path)) as ParsedKey | Error;
  if (parsed instanceof Error) {
    throw parsed;
  }
  return { path, publicLine, key: { parsed, publicLine } };
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") {
    throw new Error("no port");
  }
  return address.port;
}

/** Ends a process and all that descend from it, which is waited for. */
export async function stopTree(child: ChildProcess): Promise<void> {
  const exited = new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) {
      resolve(undefined);
    }
    child.once("exit", resolve);
  });
  // Children first: without their parent they could not be told from anybody else's.
  for (const { pid } of descendantsOf(child.pid ?? -1)) {
    kill(pid);
  }
  child.kill("SIGKILL");
  await exited;
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // Gone by itself meanwhile.
  }
}

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly name: string;
}

function descendantsOf(pid: number, processes = allProcesses()): Process[] {
  return processes
    .filter(({ parent }) => parent === pid)
    .flatMap((child) => [...descendantsOf(child.pid, processes), child]);
}

/** One look through /proc. Linux's own list of a process's children is closed to others, as sshd closes its own. */
function allProcesses(): Process[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .flatMap((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
        const [, name = "", parent] = /\((.*)\) \S+ (\d+)/s.exec(stat) ?? [];
        return [{ pid: Number(pid), parent: Number(parent), name }];
      } catch {
        return []; // Ended between the listing and the look.
      }
    });
}
