import { getEventListeners } from "node:events";
import { readdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Journal } from "../../src/demo/journal.js";
import { inMachine, type Machine } from "../../src/demo/machine.js";
import { hostKeyPair, planMachines } from "../../src/demo/machine-plan.js";
import { listen, type Port } from "../../src/demo/machine-ports.js";
import { describe, FAILURES, type Step, TakeoverError } from "../../src/errors.js";
import { ed25519PrivateFile } from "../../src/ssh/openssh-key.js";
import { takeOver } from "../../src/takeover/pipeline.js";
import type { TakeoverSettings } from "../../src/takeover/settings.js";
import { TIMEOUT_OF_STEP } from "../../tasks/attempt-watch.js";
import { createRandom } from "../chaos/random.js";
import { agentFile } from "./agents.js";
import { anyKey } from "./dialling.js";
import { MisbehavingMachine } from "./misbehaving-machine.js";
import { type Misbehaviour, planMisbehaviour } from "./misbehaviour.js";
import { machineAt, recordingContext } from "./takeover-scene.js";
import { waitFor } from "./wait.js";

export interface PeersOptions {
  readonly seed: number;
  readonly attempts: number;
  /** At once, each on a machine of its own. */
  readonly parallel: number;
  /** After so many attempts the heap is measured for the first time, and at the end again. */
  readonly warmUp: number;
}

export interface PeersReport {
  /** What went wrong with an attempt, or after it, that must not. */
  readonly violations: readonly string[];
  /** How often each kind of misbehaviour was met at each stage, and each outcome had. */
  readonly injected: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly soundAttempts: number;
  /** Of those whose machine misbehaved. */
  readonly slowestSeconds: number;
  readonly seconds: number;
  /** Bytes of heap after garbage collection, after the warm-up and at the end. */
  readonly heap: readonly [number, number];
}

/** Short, so that a run is. */
const TIMEOUTS = {
  connectTimeoutMs: 1500,
  handshakeTimeoutMs: 2500,
  uploadStallTimeoutMs: 1500,
  execTimeoutMs: 2000,
};
/** For attempts that must succeed, beside so many others and on a loaded computer. */
const AMPLE_TIMEOUTS = {
  connectTimeoutMs: 20_000,
  handshakeTimeoutMs: 20_000,
  uploadStallTimeoutMs: 20_000,
  execTimeoutMs: 20_000,
};
const ATTEMPT_TIMEOUT_MS = 10_000;
const AMPLE_ATTEMPT_TIMEOUT_MS = 60_000;
/** Over its deadline an attempt still tidies up and says good-bye, on a loaded computer. */
const GRACE_MS = 5000;
/** One attempt in so many is with a machine that does nothing wrong. */
const SOUND_EVERY = 7;
const TARGET = "/root/agent";

interface Peer {
  readonly server: MisbehavingMachine;
  readonly port: Port;
  readonly settings: TakeoverSettings;
  readonly sftp: boolean;
  /** What the agent on the machine answered last, hex. */
  answered: string | null;
}

/** Takeovers of machines that misbehave at random, the same for the same seed (as far as the scheduler allows). */
export async function runPeers(options: PeersOptions): Promise<PeersReport> {
  const begun = performance.now();
  const folder = await mkdtemp(path.join(tmpdir(), "takeover-peers-"));
  const peers = await startPeers(options, folder);
  const run = new Run(options, peers);
  try {
    await run.attempts(options.warmUp);
    const before = heapUsed();
    await run.attempts(options.attempts - options.warmUp);
    const heap = [before, heapUsed()] as const;
    return { ...run.report(), heap, seconds: Math.round((performance.now() - begun) / 1000) };
  } finally {
    for (const { port } of peers) {
      port.close();
    }
    await rm(folder, { recursive: true, force: true });
  }
}

/** One in ten has no SFTP, and one in ten gets an executable that is larger than the upload's window. */
async function startPeers({ seed, parallel }: PeersOptions, folder: string): Promise<Peer[]> {
  const small = await agentFile(path.join(folder, "small"), Buffer.alloc(100_000, "agent"));
  const large = await agentFile(path.join(folder, "large"), Buffer.alloc(2_500_000, "agent"));
  const plans = planMachines({ machines: parallel, faulty: 0, seed });
  const peers: Peer[] = [];
  for (const [index, plan] of plans.entries()) {
    const executable = index % 10 === 0 ? large : small;
    const sftp = index % 10 !== 9;
    const journal: Journal = {
      record(event) {
        if (event.event === "run_end" && peer !== undefined) {
          peer.answered = event.agentKey;
        }
      },
      close: () => {},
    };
    const machine: Machine = {
      plan,
      folder: path.join(folder, plan.providerId),
      context: {
        seed,
        authorizedKey: Buffer.alloc(0),
        latencyMs: 0,
        mark: "peers",
        searchPath: process.env.PATH ?? "",
        inProcessAgent: executable.sha256,
        journal,
        nextConnection: () => 0,
      },
    };
    const hostKey = ed25519PrivateFile(hostKeyPair(seed, plan.number), "");
    const server = new MisbehavingMachine(
      machine,
      hostKey,
      sftp,
      createRandom(seed * 1000 + index),
    );
    const peer: Peer = {
      server,
      port: await listen(0, (socket) => server.serve(socket)),
      settings: settingsFor(executable),
      sftp,
      answered: null,
    };
    peers.push(peer);
  }
  return peers;
}

function settingsFor(executable: TakeoverSettings["executable"]): TakeoverSettings {
  return {
    executable,
    targetPath: TARGET,
    endpoint: "https://bmdb.example:4443",
    caCertificate: new Uint8Array(),
    sshUser: "root",
    sshKey: anyKey(),
    hostKeyPolicy: "accept-new",
    acceptFirstGenerationAgents: false,
    ...TIMEOUTS,
  };
}

class Run {
  readonly #peers: readonly Peer[];
  readonly #plan: ReturnType<typeof createRandom>;
  readonly #violations: string[] = [];
  readonly #injected: Record<string, Record<string, number>> = {};
  readonly #outcomes: Record<string, number> = {};
  #sound = 0;
  #begun = 0;
  #slowest = 0;

  constructor({ seed }: PeersOptions, peers: readonly Peer[]) {
    this.#peers = peers;
    this.#plan = createRandom(seed);
  }

  /** So many more attempts, all of them ended. */
  async attempts(count: number): Promise<void> {
    const last = this.#begun + count;
    await Promise.all(
      this.#peers.map(async (peer) => {
        while (this.#begun < last) {
          this.#begun += 1;
          await this.#attempt(this.#begun, peer);
        }
      }),
    );
  }

  report() {
    return {
      violations: this.#violations,
      injected: this.#injected,
      outcomes: this.#outcomes,
      soundAttempts: this.#sound,
      slowestSeconds: this.#slowest / 1000,
    };
  }

  async #attempt(number: number, peer: Peer): Promise<void> {
    const { settings, sftp, server } = peer;
    const { size } = settings.executable;
    const misbehaviour =
      number % SOUND_EVERY === 0 ? null : planMisbehaviour(this.#plan, { sftp, bytes: size });
    await rm(inMachine(server.machine, TARGET), { force: true });
    peer.answered = null;
    server.arm(misbehaviour);

    const begun = performance.now();
    const { outcome, cause, problems } = await takeOverOnce(peer, misbehaviour === null);
    const took = performance.now() - begun;
    if (misbehaviour !== null) {
      this.#slowest = Math.max(this.#slowest, took);
      if (took > ATTEMPT_TIMEOUT_MS + GRACE_MS) {
        problems.push(`took ${Math.round(took)} ms`);
      }
    } else {
      this.#sound += 1;
      if (outcome !== "taken over") {
        problems.push(`a sound machine: ${cause}`);
      }
    }
    await settled(server).catch((error) => problems.push(describe(error)));

    const what = misbehaviour === null ? "sound" : misbehaviour.kind;
    const where = misbehaviour === null ? "nowhere" : misbehaviour.stage;
    this.#injected[where] ??= {};
    count(this.#injected[where], what);
    count(this.#outcomes, outcome);
    for (const problem of problems) {
      this.#violations.push(`attempt ${number}, ${show(misbehaviour)}: ${problem}`);
    }
  }
}

/** One takeover as a worker would make it, and what about its end must not be. */
async function takeOverOnce(
  peer: Peer,
  sound: boolean,
): Promise<{ outcome: string; cause: string; problems: string[] }> {
  const problems: string[] = [];
  const aborter = new AbortController();
  let step = "locate" as Step;
  const { context } = recordingContext(
    { ...peer.settings, ...(sound && AMPLE_TIMEOUTS) },
    {
      onStepStart: (started) => {
        step = started;
      },
    },
  );
  const timer = setTimeout(
    () => aborter.abort(new TakeoverError(TIMEOUT_OF_STEP[step], "--attempt-timeout")),
    sound ? AMPLE_ATTEMPT_TIMEOUT_MS : ATTEMPT_TIMEOUT_MS,
  );
  let outcome: string;
  let cause = "";
  try {
    const over = await takeOver(machineAt(peer.port.number), context, aborter.signal);
    outcome = "taken over";
    const key = Buffer.from(over.agentKey).toString("hex");
    if (key !== peer.answered) {
      problems.push(`the agent's key is ${peer.answered}, not ${key}`);
    }
    await over.close();
  } catch (error) {
    cause = describe(error);
    if (error instanceof TakeoverError && error.code in FAILURES) {
      outcome = error.code;
      // A run that was cut short fails as such only where its reply does not do.
      const ofRun = step === "verify" && error.step === "run_agent";
      if (error.step !== step && !ofRun) {
        problems.push(`${error.code} at the step ${step}`);
      }
    } else {
      outcome = "an error without a code";
      problems.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
    }
  }
  clearTimeout(timer);
  const listeners = getEventListeners(aborter.signal, "abort").length;
  if (listeners > 0) {
    problems.push(`${listeners} listeners are left on the signal`);
  }
  return { outcome, cause, problems };
}

/** The connection is closed on both ends, and no temporary file is left on the machine. */
async function settled(server: MisbehavingMachine): Promise<void> {
  const root = inMachine(server.machine, path.posix.dirname(TARGET));
  const left = () => readdirSync(root).filter((name) => name.includes(".takeover-"));
  const state = () => `${server.connections} connections, ${left().length} temporary files left`;
  await waitFor("", () => server.connections === 0 && left().length === 0, 5000).catch(() => {
    throw new Error(state());
  });
}

const show = (misbehaviour: Misbehaviour | null): string =>
  misbehaviour === null
    ? "sound"
    : `${misbehaviour.kind} at ${misbehaviour.stage} (${misbehaviour.after})`;

function count(counts: Record<string, number>, what: string): void {
  counts[what] = (counts[what] ?? 0) + 1;
}

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

function heapUsed(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}
