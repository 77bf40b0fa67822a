import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { staticProvider } from "../../src/providers/static.js";
import type { ProvidedMachine } from "../../src/takeover/machine.js";
import type { TakeoverContext } from "../../src/takeover/pipeline.js";
import type { TakeoverSettings } from "../../src/takeover/settings.js";
import type { Uploaded } from "../../src/takeover/upload.js";
import { createLogger } from "../../src/telemetry/logger.js";
import { agentFile, freshPublicKey, shellAgent } from "./agents.js";
import { SSH_USER, type Sshd } from "./sshd.js";

/** A machine behind a server on 127.0.0.1. */
export function machineAt(port: number, changes: Partial<ProvidedMachine> = {}): ProvidedMachine {
  return {
    machineId: randomUUID(),
    provider: "static",
    providerId: "machine-1",
    address: "127.0.0.1",
    sshPort: port,
    sshUser: null,
    requiredHostKey: null,
    recordedHostKey: null,
    ...changes,
  };
}

/** A folder with an agent in it, and the settings of a worker that would bring it to `target` there. */
export interface Bench {
  readonly folder: string;
  readonly target: string;
  readonly agentKey: Buffer;
  settings(sshd: Pick<Sshd, "clientKey">, changes?: Partial<TakeoverSettings>): TakeoverSettings;
  remove(): Promise<void>;
}

/** The agent's file: answers `key`; `folder` is the bench's own, for what it leaves to be looked at. */
export type AgentMaker = (key: Buffer, folder: string) => string | Buffer;

export async function setUpBench(agent: AgentMaker = (key) => shellAgent(key)): Promise<Bench> {
  const folder = await mkdtemp(join(tmpdir(), "takeover-bench-"));
  const agentKey = freshPublicKey();
  const executable = await agentFile(join(folder, "agent.local"), agent(agentKey, folder));
  const target = join(folder, "machine", "agent");
  return {
    folder,
    target,
    agentKey,
    settings: ({ clientKey }, changes = {}) => ({
      executable,
      targetPath: target,
      endpoint: "https://bmdb.example:4443",
      caCertificate: new Uint8Array(),
      sshUser: SSH_USER,
      sshKey: clientKey,
      hostKeyPolicy: "accept-new",
      connectTimeoutMs: 2000,
      handshakeTimeoutMs: 15_000,
      uploadStallTimeoutMs: 15_000,
      execTimeoutMs: 20_000,
      acceptFirstGenerationAgents: false,
      ...changes,
    }),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** A context that writes down what it is told. */
export function recordingContext(
  settings: TakeoverSettings,
  changes: Partial<TakeoverContext> = {},
): { context: TakeoverContext; events: string[]; uploads: Uploaded[] } {
  const events: string[] = [];
  const uploads: Uploaded[] = [];
  const context: TakeoverContext = {
    settings,
    providers: new Map([["static", staticProvider]]),
    onStepStart: (step) => events.push(`${step} started`),
    onStepEnd: (step) => events.push(`${step} ended`),
    onUpload: (uploaded) => uploads.push(uploaded),
    onHostKey: (decision) => events.push(`host key ${decision}`),
    beforeRunAgent: async () => {
      events.push("before run_agent");
    },
    log: createLogger({ level: "fatal", destination: { write: () => {} }, readable: false }),
    ...changes,
  };
  return { context, events, uploads };
}

/** A signal that never aborts. */
export const never = (): AbortSignal => new AbortController().signal;
