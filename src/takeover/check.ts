import { TakeoverError } from "../errors.js";
import type { Providers } from "../providers/provider.js";
import { type Connection, SftpUnusable } from "../ssh/connection.js";
import { shownHostKey } from "../ssh/host-key.js";
import { showTarget } from "../ssh/tcp.js";
import {
  aboutExecution,
  aboutProcessor,
  aboutSpace,
  aboutStartUp,
  aboutTarget,
  aboutTools,
  type Finding,
  failure,
  note,
  ok,
  type Subject,
  unchecked,
  type Wanted,
} from "./check-findings.js";
import { INSPECT } from "./check-script.js";
import { type DialSettings, dial, dialTarget } from "./dial.js";
import { readExecutableFormat } from "./executable-format.js";
import { locate } from "./locate.js";
import type { ProvidedMachine } from "./machine.js";
import { loaderOf } from "./not-executable.js";
import { runScript, type ScriptResult } from "./remote-script.js";
import type { TakeoverSettings } from "./settings.js";
import { mustHaveRun } from "./upload-answer.js";
import { asChannelFailure } from "./upload-failure.js";
import { hashLimit, stallLimit } from "./upload-transfer.js";

/** What of a worker's settings a check needs. */
export type CheckSettings = DialSettings &
  Pick<TakeoverSettings, "executable" | "targetPath" | "uploadStallTimeoutMs">;

export interface CheckContext {
  readonly settings: CheckSettings;
  readonly providers: Providers;
  /** Told of each finding as soon as it is made. */
  tell(finding: Finding): void;
}

/**
 * Goes the way of a takeover up to its upload, and looks at what it would meet from there on. Changes nothing:
 * nothing is written on the machine, not even for a moment, and nothing is run but a shell that looks around.
 *
 * @throws the signal's reason where that aborts, within a second; whatever is wrong with the machine is a finding
 */
export async function checkMachine(
  machine: ProvidedMachine,
  context: CheckContext,
  signal: AbortSignal,
): Promise<void> {
  const check = new Check(machine, context, signal);
  let connection: Connection | undefined;
  try {
    const address = await check.locate();
    connection = address === undefined ? undefined : await check.dial(address);
    if (connection !== undefined) {
      await check.lookAround(connection);
    }
    check.tellUnchecked();
  } finally {
    if (!signal.aborted) {
      await connection?.close();
    }
    connection?.destroy();
  }
}

/** One check under way. A step that failed has told why, and answers undefined. */
class Check {
  readonly #machine: ProvidedMachine;
  readonly #settings: CheckSettings;
  readonly #context: CheckContext;
  readonly #signal: AbortSignal;
  readonly #told = new Set<Subject>(["record"]);

  constructor(machine: ProvidedMachine, context: CheckContext, signal: AbortSignal) {
    this.#machine = machine;
    this.#settings = context.settings;
    this.#context = context;
    this.#signal = signal;
  }

  async locate(): Promise<string | undefined> {
    const located = locate(this.#machine, this.#context.providers, this.#signal);
    const address = await this.#orTell("locate", located);
    if (address !== undefined) {
      this.#tell(ok("locate", address));
    }
    return address;
  }

  async dial(address: string): Promise<Connection | undefined> {
    const target = dialTarget(this.#machine, address, this.#settings);
    try {
      const connection = await dial(this.#machine, address, this.#settings, this.#signal);
      this.#tell(ok("dial", `${showTarget(target)}, ${shownKey(connection)}`));
      this.#tell(ok("login", `as ${target.user}`));
      return connection;
    } catch (error) {
      const refused = error instanceof TakeoverError && error.code === "TAKEOVER_DIAL_AUTH_FAILED";
      if (refused) {
        this.#tell(ok("dial", showTarget(target)));
      }
      this.#tellFailure(refused ? "login" : "dial", error);
      return undefined;
    }
  }

  async lookAround(connection: Connection): Promise<void> {
    const { executable, targetPath } = this.#settings;
    const wanted = { executable, targetPath, format: await readExecutableFormat(executable.path) };
    const found = await this.#orTell("shell", this.#inspect(connection, wanted));
    if (found !== undefined) {
      this.#tell(ok("shell", "runs our commands"));
      await this.#judge(connection, found, wanted);
    }
  }

  /** What was not told yet could not be looked at. */
  tellUnchecked(): void {
    for (const finding of unchecked(this.#told)) {
      this.#tell(finding);
    }
  }

  async #inspect(connection: Connection, { executable, targetPath, format }: Wanted) {
    const { uploadStallTimeoutMs } = this.#settings;
    const found = await runScript(
      connection,
      INSPECT,
      [targetPath, String(executable.size), executable.sha256, `loader:${loaderOf(format)}`],
      hashLimit(executable, uploadStallTimeoutMs, this.#signal, "looking around on the machine"),
    );
    mustHaveRun(found);
    if (found.get("inspected") !== "yes") {
      throw new TakeoverError("TAKEOVER_UPLOAD_FAILED", "the machine broke our command off");
    }
    return found;
  }

  /** In the order in which a takeover would stumble over it, so that the first failure is the one it would have. */
  async #judge(connection: Connection, found: ScriptResult, wanted: Wanted): Promise<void> {
    const target = aboutTarget(found, wanted);
    const isDirectory = found.get("isdir") === "yes";
    if (isDirectory) {
      this.#tell(target);
    }
    this.#tell(aboutProcessor(found, wanted));
    const sftp = await this.#sftp(connection, found);
    if (!isDirectory) {
      this.#tell(target);
    }
    this.#tell(aboutSpace(found, wanted));
    this.#tell(aboutTools(found, sftp));
    this.#tell(aboutStartUp(found));
    this.#tell(aboutExecution(found, wanted));
  }

  /** Whether there is one that answers. Without, the file goes through the shell. */
  async #sftp(connection: Connection, found: ScriptResult): Promise<boolean> {
    if (found.get("there") === "yes") {
      this.#tell(ok("sftp", "not needed"));
      return true;
    }
    const limit = stallLimit(this.#settings.uploadStallTimeoutMs, this.#signal, "opening SFTP");
    try {
      const sftp = await connection.openSftp(limit);
      await sftp.end();
      this.#tell(ok("sftp", "answers"));
      return true;
    } catch (error) {
      if (error instanceof SftpUnusable) {
        this.#tell(note("sftp", `none, so the file goes through the shell: ${error.message}`));
      } else {
        this.#tellFailure("sftp", error);
      }
      return false;
    }
  }

  async #orTell<T>(subject: Subject, step: Promise<T>): Promise<T | undefined> {
    try {
      return await step;
    } catch (error) {
      this.#tellFailure(subject, error);
      return undefined;
    }
  }

  #tell(finding: Finding): void {
    this.#told.add(finding.subject);
    this.#context.tell(finding);
  }

  #tellFailure(subject: Subject, error: unknown): void {
    const found = failure(subject, asChannelFailure(error));
    if (found === undefined) {
      throw error;
    }
    this.#tell(found);
  }
}

const DECISIONS: Readonly<Partial<Record<Connection["hostKeyDecision"], string>>> = {
  new: "the first one it shows",
  matched: "as expected",
  unchecked: "not compared",
};

function shownKey({ hostKey, hostKeyDecision }: Connection): string {
  return `${shownHostKey(hostKey) ?? "no host key"}, ${DECISIONS[hostKeyDecision]}`;
}
