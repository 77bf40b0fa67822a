import { randomBytes } from "node:crypto";
import { TakeoverError } from "../errors.js";
import {
  ChannelRefused,
  type Connection,
  ConnectionLost,
  SftpStatus,
  SftpUnusable,
} from "../ssh/connection.js";
import type { Limit } from "../ssh/deadline.js";
import type { AgentExecutable } from "./agent-executable.js";
import { runScript, type ScriptResult } from "./remote-script.js";
import { notWritable } from "./upload-answer.js";
import type { UploadPlan } from "./upload-plan.js";
import { EXPLAIN } from "./upload-scripts.js";

/** Why a file cannot be written, by what the machine's own tools say; the first that fits. */
const REASONS: readonly (readonly [RegExp, string])[] = [
  [/no space left|quota exceeded/i, "the disk is full"],
  [/read-only file system/i, "the file system is read-only"],
  [/not a directory|file exists/i, "a part of the path is not a directory"],
  [/permission denied|operation not permitted/i, "no permission to write there"],
  [
    /no such file or directory|directory nonexistent/i,
    "the folder does not exist and cannot be made",
  ],
  [/file name too long/i, "the file name is too long"],
  [/text file busy|device or resource busy/i, "the target is busy"],
];

/** A reason in the words of the machine's tools, as one of ours; undefined where it is none we know. */
export function reasonIn(text: string): string | undefined {
  return REASONS.find(([pattern]) => pattern.test(text))?.[1];
}

/** Turns whatever ended an upload into the failure to record; aborts and failures pass as they are. */
export async function asUploadFailure(
  error: unknown,
  connection: Connection,
  plan: UploadPlan,
  limit: Limit,
): Promise<unknown> {
  return error instanceof SftpStatus
    ? cannotWrite(connection, plan, limit, error)
    : asChannelFailure(error);
}

/** The same for what goes wrong with the connection and its channels, where no file is written. */
export function asChannelFailure(error: unknown): unknown {
  if (error instanceof ConnectionLost) {
    return new TakeoverError(
      "TAKEOVER_UPLOAD_CONNECTION_LOST",
      "the connection was lost during the upload",
      { cause: error },
    );
  }
  if (error instanceof ChannelRefused) {
    return new TakeoverError("TAKEOVER_UPLOAD_FAILED", "the server refused a channel", {
      cause: error,
    });
  }
  if (error instanceof SftpUnusable) {
    return new TakeoverError("TAKEOVER_UPLOAD_FAILED", "the machine's SFTP server gave up", {
      cause: error,
    });
  }
  return error;
}

/**
 * SFTP's "Failure" and a shell's complaint stand for many things: asks the machine, once, which it is.
 * `complaint` is what was seen so far.
 */
export async function cannotWrite(
  connection: Connection,
  plan: UploadPlan,
  limit: Limit,
  complaint: SftpStatus | string,
): Promise<TakeoverError> {
  const said = typeof complaint === "string" ? complaint : complaint.message;
  const reason = (await explanation(connection, plan, limit)) ?? reasonIn(said) ?? said;
  return notWritable(
    plan.targetPath,
    reason || "the machine does not say why",
    typeof complaint === "string" ? {} : { cause: complaint },
  );
}

/** How much room a file takes, in blocks of 1024 bytes as `df` counts them. */
export function neededKib({ size }: AgentExecutable): number {
  return Math.ceil(size / 1024);
}

export function diskFull(freeKib: number, needed: number): string {
  return `the disk is full (${freeKib} KiB free, ${needed} KiB needed)`;
}

async function explanation(
  connection: Connection,
  plan: UploadPlan,
  limit: Limit,
): Promise<string | undefined> {
  const probe = `${plan.tempPrefix}.probe-${randomBytes(4).toString("hex")}`;
  let result: ScriptResult;
  try {
    result = await runScript(connection, EXPLAIN, [plan.targetPath, probe], limit);
  } catch (error) {
    if (limit.signal.aborted) {
      throw error;
    }
    return undefined; // What was seen first stays the cause; this was only to say it better.
  }
  const reason = reasonIn(result.get("made") ?? "") ?? reasonIn(result.get("probe") ?? "");
  // The fourth column of `df -P` is what is free for an ordinary user.
  const free = Number(result.get("free")?.trim().split(/\s+/)[3]);
  const needed = neededKib(plan.executable);
  if (reason === "the disk is full" || (reason === undefined && free < needed)) {
    return diskFull(free, needed);
  }
  if (reason === undefined) {
    return undefined;
  }
  const folder = result.get("folder") ?? "";
  return folder === "" ? reason : `${reason} (${folder})`;
}
