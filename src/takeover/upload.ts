import { createHash, randomBytes } from "node:crypto";
import { TakeoverError } from "../errors.js";
import { type Connection, type Sftp, SftpUnusable } from "../ssh/connection.js";
import { asDuration, type Limit, settledWithin, within } from "../ssh/deadline.js";
import { architectureConflict, readExecutableFormat } from "./executable-format.js";
import { runFramed } from "./framed-command.js";
import { runScript, type ScriptResult } from "./remote-script.js";
import type { TakeoverSettings } from "./settings.js";
import { isDirectory, mismatch, mustHaveRun, placementFailure } from "./upload-answer.js";
import { asUploadFailure, cannotWrite } from "./upload-failure.js";
import { guardUpload, type UploadGuard } from "./upload-guard.js";
import type { UploadPlan } from "./upload-plan.js";
import { INSTALL, PREPARE, READ_BACK, REMOVE } from "./upload-scripts.js";
import { hashLimit, sendBySftp, sendByShell, stallLimit } from "./upload-transfer.js";

/** What of the executable went to the machine; `skipped`: it was there already. */
export type Uploaded =
  | { readonly result: "sent"; readonly bytes: number }
  | { readonly result: "skipped" };

/** How long the removal of a partial file may take, in milliseconds, and how long still after an abort. */
const TIDY_MS = 2000;
const TIDY_ABORTED_MS = 600;

/**
 * Brings the executable to `--agent-target-path` on the machine: whole, checked on the machine, executable,
 * and in one move, so that a running agent is not in the way. Nothing partial stays behind.
 *
 * @throws TakeoverError of the step `upload`; the signal's reason where it aborts
 */
export async function upload(
  { connection, machineId }: { readonly connection: Connection; readonly machineId: string },
  settings: TakeoverSettings,
  signal: AbortSignal,
): Promise<Uploaded> {
  const { executable, targetPath } = settings;
  const tempPrefix = `${targetPath}.takeover-${machineId}`;
  const tempPath = `${tempPrefix}.${randomBytes(8).toString("hex")}`;
  const plan: UploadPlan = { executable, targetPath, tempPrefix, tempPath };
  const attempt = new Upload(connection, plan, settings.uploadStallTimeoutMs, signal);
  try {
    return await attempt.run();
  } catch (error) {
    if (signal.aborted) {
      throw error;
    }
    throw await asUploadFailure(error, connection, plan, attempt.limit("asking why"));
  }
}

class Upload {
  readonly #connection: Connection;
  readonly #plan: UploadPlan;
  readonly #stallMs: number;
  readonly #signal: AbortSignal;
  #guard: UploadGuard | null = null;
  #tidied = false;

  constructor(connection: Connection, plan: UploadPlan, stallMs: number, signal: AbortSignal) {
    this.#connection = connection;
    this.#plan = plan;
    this.#stallMs = stallMs;
    this.#signal = signal;
  }

  limit(doing: string): Limit {
    return stallLimit(this.#stallMs, this.#signal, doing);
  }

  async run(): Promise<Uploaded> {
    if (await this.#isThere()) {
      return { result: "skipped" };
    }
    try {
      await this.#transfer();
    } catch (error) {
      await this.#removeTemporary();
      throw error;
    } finally {
      await this.#guard?.release(this.#signal);
    }
    return { result: "sent", bytes: this.#plan.executable.size };
  }

  /** Whether the target is the executable already; makes its folder and judges the machine on the way. */
  async #isThere(): Promise<boolean> {
    const { executable, targetPath, tempPrefix } = this.#plan;
    const prepared = await runScript(
      this.#connection,
      PREPARE,
      [targetPath, String(executable.size), executable.sha256, tempPrefix],
      this.#hashLimit("looking for the executable on the machine"),
    );
    mustHaveRun(prepared);
    if (prepared.get("isdir") === "yes") {
      throw isDirectory(this.#plan);
    }
    const conflict = architectureConflict(
      await readExecutableFormat(executable.path),
      prepared.get("arch") ?? "",
      prepared.all("binfmt"),
    );
    if (conflict !== undefined) {
      throw new TakeoverError("TAKEOVER_UPLOAD_WRONG_ARCHITECTURE", conflict);
    }
    return prepared.get("there") === "yes";
  }

  async #transfer(): Promise<void> {
    let result = (await this.#bySftp()) ? await this.#install() : await this.#byShell();
    mustHaveRun(result);
    if (result.get("nohash") === "yes") {
      await this.#readBack();
      result = await this.#install("-");
      mustHaveRun(result);
    }
    const failure = placementFailure(result, this.#plan);
    if (failure === "denied") {
      const limit = this.limit("asking why");
      throw await cannotWrite(this.#connection, this.#plan, limit, result.stderr);
    }
    if (failure !== null) {
      throw failure;
    }
  }

  /** False where the machine has no SFTP that answers. */
  async #bySftp(): Promise<boolean> {
    let sftp: Sftp;
    try {
      sftp = await this.#connection.openSftp(this.limit("opening SFTP"));
    } catch (error) {
      if (error instanceof SftpUnusable) {
        return false;
      }
      throw error;
    }
    try {
      const limit = this.limit("having the partial file guarded");
      this.#guard = await guardUpload(this.#connection, this.#plan.tempPath, limit);
      await sendBySftp(sftp, this.#plan, this.#stallMs, this.#signal);
    } catch (error) {
      await this.#removeTemporary(sftp);
      throw error;
    }
    // Before any command: a server with MaxSessions 1 has one channel.
    await within(this.limit("closing SFTP"), sftp.end());
    return true;
  }

  #byShell(): Promise<ScriptResult> {
    return sendByShell(
      this.#connection,
      this.#plan,
      this.#stallMs,
      this.#hashLimit("checking the uploaded file"),
    );
  }

  #install(sha256 = this.#plan.executable.sha256): Promise<ScriptResult> {
    const { tempPath, targetPath, executable } = this.#plan;
    return runScript(
      this.#connection,
      INSTALL,
      [tempPath, targetPath, String(executable.size), sha256],
      this.#hashLimit("checking the uploaded file"),
    );
  }

  /** For a machine without any tool that hashes. */
  async #readBack(): Promise<void> {
    const digest = createHash("sha256");
    const limit = this.#hashLimit("reading the uploaded file back");
    const command = await runFramed(
      this.#connection,
      READ_BACK,
      [this.#plan.tempPath],
      { output: (chunk) => digest.update(chunk) },
      limit,
    );
    command.running.end();
    try {
      const ending = await within(limit, command.ended);
      if (ending.how === "lost") {
        throw ending.error;
      }
    } finally {
      command.running.close();
    }
    const sha256 = digest.digest("hex");
    if (sha256 !== this.#plan.executable.sha256) {
      throw mismatch(`SHA-256 ${sha256}`, `SHA-256 ${this.#plan.executable.sha256}`);
    }
  }

  /** On every way out but success, once. Never rejects. */
  async #removeTemporary(sftp?: Sftp): Promise<void> {
    if (this.#tidied || this.#connection.lost !== undefined) {
      return;
    }
    this.#tidied = true;
    const removed = this.#remove(sftp);
    const limit = { ms: TIDY_MS, signal: this.#signal, late: () => new Error("too late") };
    await within(limit, removed).catch(() => {}); // The first error is the one to tell.
    if (this.#signal.aborted) {
      await settledWithin(TIDY_ABORTED_MS, removed);
    }
  }

  async #remove(sftp: Sftp | undefined): Promise<void> {
    const { tempPath } = this.#plan;
    // Behind the writes that are on their way, on the same channel: the server takes them in order.
    const removed = await sftp?.remove(tempPath).then(
      () => true,
      () => false,
    );
    await sftp?.end();
    if (removed !== true) {
      // The attempt's own signal may have aborted; this has a deadline around it.
      const { signal } = new AbortController();
      const late = () => new Error(`no partial file was removed within ${asDuration(TIDY_MS)}`);
      await runScript(this.#connection, REMOVE, [tempPath], { ms: TIDY_MS, signal, late });
    }
  }

  #hashLimit(doing: string): Limit {
    return hashLimit(this.#plan.executable, this.#stallMs, this.#signal, doing);
  }
}
