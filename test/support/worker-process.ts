import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { PACKAGE_ROOT } from "../../src/config/package-root.js";
import { freePort } from "./sshd.js";
import { waitFor, within } from "./wait.js";

export const TAKEOVER = path.join(PACKAGE_ROOT, "dist", "src", "main.js");

/** `takeover worker` as a process of its own. */
export interface WorkerProcess {
  readonly process: ChildProcess;
  /** Its log so far: JSON lines. */
  log(): string;
  /** The answer's body; its status first. */
  get(page: "/livez" | "/readyz" | "/metrics"): Promise<string>;
  /** The sum over a metric's series whose labels contain `labels`. */
  metric(name: string, labels?: string): Promise<number>;
  /** Sends a signal and gives the exit code. */
  stop(signal?: NodeJS.Signals, deadlineMs?: number): Promise<number | null>;
}

export interface WorkerProcessOptions {
  readonly databaseUrl: string;
  readonly executable: string;
  readonly targetPath: string;
  readonly sshKeyPath: string;
  readonly sshUser: string;
  readonly flags?: readonly string[];
}

/** Starts a worker and waits until it is ready. */
export async function startWorker(options: WorkerProcessOptions): Promise<WorkerProcess> {
  const port = await freePort();
  const child = spawn(
    process.execPath,
    [
      TAKEOVER,
      "worker",
      `--agent-executable-path=${options.executable}`,
      `--agent-target-path=${options.targetPath}`,
      "--agent-endpoint=control.example:8443",
      `--ssh-key-path=${options.sshKeyPath}`,
      `--ssh-user=${options.sshUser}`,
      `--http-port=${port}`,
      "--log-level=debug",
      ...(options.flags ?? []),
    ],
    {
      env: { ...process.env, DATABASE_URL: options.databaseUrl },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  let log = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      log += text;
    });
  }
  const get = async (page: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${page}`, {
      signal: AbortSignal.timeout(5_000),
    });
    return `${answer.status} ${await answer.text()}`;
  };
  await waitFor(
    "the worker is ready",
    async () => {
      if (child.exitCode !== null) {
        throw new Error(`the worker exited ${child.exitCode}: ${log}`);
      }
      return (await get("/readyz").catch(() => "")).startsWith("200");
    },
    40_000,
  );
  return {
    process: child,
    log: () => log,
    get,
    async metric(name, labels = "") {
      let sum = 0;
      for (const line of (await get("/metrics")).split("\n")) {
        if (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) {
          sum += line.includes(labels) ? Number(line.slice(line.lastIndexOf(" "))) : 0;
        }
      }
      return sum;
    },
    async stop(signal = "SIGTERM", deadlineMs = 20_000) {
      if (child.exitCode === null && child.signalCode === null) {
        const exited = once(child, "exit");
        child.kill(signal);
        await within(`the worker ends after ${signal}`, deadlineMs, exited);
      }
      return child.exitCode;
    },
  };
}
