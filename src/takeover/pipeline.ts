import { type Step, TakeoverError } from "../errors.js";
import type { Providers } from "../providers/provider.js";
import type { Connection } from "../ssh/connection.js";
import { within } from "../ssh/deadline.js";
import type { HostKeyDecision } from "../telemetry/labels.js";
import type { Logger } from "../telemetry/logger.js";
import { dial } from "./dial.js";
import { buildInit } from "./init.js";
import { locate } from "./locate.js";
import type { ProvidedMachine } from "./machine.js";
import { runAgent } from "./run-agent.js";
import type { TakeoverSettings } from "./settings.js";
import { type Uploaded, upload } from "./upload.js";
import { verify } from "./verify.js";

/** What the steps tell their caller, and ask of it. */
export interface TakeoverHooks {
  onStepStart(step: Step): void;
  /** Called for a step that failed, too. */
  onStepEnd(step: Step, seconds: number): void;
  onUpload(uploaded: Uploaded): void;
  onHostKey(decision: HostKeyDecision): void;
  /**
   * The last moment before anything irreversible: the agent is started once this resolved, and only then.
   * What it rejects with is what the takeover rejects with.
   */
  beforeRunAgent(): Promise<void>;
  readonly log: Logger;
}

export interface TakeoverContext extends TakeoverHooks {
  readonly settings: TakeoverSettings;
  readonly providers: Providers;
}

/** The agent runs and has proved to be of this attempt. */
export interface TakenOver {
  /** The agent's Ed25519 public key: 32 bytes. */
  readonly agentKey: Uint8Array;
  /** `<type> <base64>`: what the machine showed; null under `--host-key-policy insecure`, which did not look. */
  readonly hostKey: string | null;
  /** Printable. */
  readonly warnings: string[];
  /**
   * Closes the SSH connection, which is still open: the key goes on record first, for from the agent's reply on
   * the machine may be gone at any moment. Takes a second at most and never rejects.
   */
  close(): Promise<void>;
}

/**
 * One takeover: finds the machine, logs in, brings the agent there, runs it, and judges its answer.
 *
 * @throws TakeoverError where a step failed; Snooze where the provider says "not yet"; what `beforeRunAgent`
 *   rejected with; the signal's reason where that aborts, within a second, whatever else went wrong meanwhile
 */
export async function takeOver(
  machine: ProvidedMachine,
  context: TakeoverContext,
  signal: AbortSignal,
): Promise<TakenOver> {
  const { settings, providers } = context;
  const step = <T>(name: Step, run: () => Promise<T>) => timed(name, run, context, signal);
  let connection: Connection | undefined;
  try {
    const address = await step("locate", () => locate(machine, providers, signal));
    const ssh = await step("dial", () => dial(machine, address, settings, signal));
    connection = ssh;
    context.onHostKey(ssh.hostKeyDecision);

    const input = { connection: ssh, machineId: machine.machineId };
    context.onUpload(await step("upload", () => upload(input, settings, signal)));

    await unlessAborted(context.beforeRunAgent(), signal);
    const init = buildInit(machine, settings);
    const run = { connection: ssh, init };
    const reply = await step("run_agent", () => runAgent(run, settings, signal));

    const { agentKey, warnings } = await step("verify", () =>
      verify({ reply, init }, settings, signal),
    );
    const hostKey = ssh.hostKeyDecision === "unchecked" ? null : ssh.hostKey;
    return { agentKey, hostKey, warnings, close: () => ssh.close() };
  } catch (error) {
    tellRefusedHostKey(error, context);
    await hangUp(connection, signal);
    // Teardown makes errors of its own; what aborted the attempt is what to tell.
    throw signal.aborted ? signal.reason : error;
  }
}

async function timed<T>(
  name: Step,
  run: () => Promise<T>,
  hooks: TakeoverHooks,
  signal: AbortSignal,
): Promise<T> {
  signal.throwIfAborted();
  hooks.onStepStart(name);
  const begun = performance.now();
  try {
    return await run();
  } finally {
    const seconds = (performance.now() - begun) / 1000;
    hooks.onStepEnd(name, seconds);
    hooks.log.debug({ step: name, durationMs: Math.round(seconds * 1000) }, `${name} ended`);
  }
}

/** The caller's own wait, whose deadline is the caller's. */
function unlessAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  const forever = 2 ** 31 - 1;
  return within({ ms: forever, signal, late: () => new Error("never") }, work);
}

function tellRefusedHostKey(error: unknown, hooks: TakeoverHooks): void {
  if (!(error instanceof TakeoverError)) {
    return;
  }
  if (error.code === "TAKEOVER_DIAL_HOST_KEY_CHANGED") {
    hooks.onHostKey("changed");
  } else if (error.code === "TAKEOVER_DIAL_HOST_KEY_MISSING") {
    hooks.onHostKey("missing");
  }
}

async function hangUp(connection: Connection | undefined, signal: AbortSignal): Promise<void> {
  if (connection !== undefined && !signal.aborted) {
    await connection.close();
  }
  connection?.destroy();
}
