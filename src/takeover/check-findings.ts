import { describe, type FailureCode, Snooze, TakeoverError } from "../errors.js";
import { architectureConflict, type ExecutableFormat } from "./executable-format.js";
import { LONGEST_PREAMBLE } from "./framed-command.js";
import { loaderMissing, loaderOf, mountedNoexec, mountOptions } from "./not-executable.js";
import type { ScriptResult } from "./remote-script.js";
import { tooMuchBefore } from "./run-agent.js";
import type { TakeoverSettings } from "./settings.js";
import { isDirectory, notWritable } from "./upload-answer.js";
import { diskFull, neededKib } from "./upload-failure.js";

/** What a check looks at, in the order in which a takeover meets it; `record` is the database's. */
export const SUBJECTS = [
  "record",
  "locate",
  "dial",
  "login",
  "shell",
  "processor",
  "sftp",
  "target",
  "space",
  "tools",
  "start-up",
  "execution",
] as const;
export type Subject = (typeof SUBJECTS)[number];

/** What a check found out about one thing. */
export interface Finding {
  readonly subject: Subject;
  /** `note`: worth knowing, and no obstacle. `unchecked`: an earlier failure is in the way of looking. */
  readonly verdict: "ok" | "note" | "fail" | "unchecked";
  /** One line, printable. */
  readonly text: string;
  /** What a takeover would fail with; null where it would not fail, or not be tried at all. */
  readonly code: FailureCode | null;
}

/** What the machine's answers are judged by. */
export interface Wanted extends Pick<TakeoverSettings, "executable" | "targetPath"> {
  readonly format: ExecutableFormat;
}

type Facts = Pick<ScriptResult, "get" | "all" | "preamble" | "preambleBytes">;

export const ok = (subject: Subject, text: string): Finding => finding(subject, "ok", text);
export const note = (subject: Subject, text: string): Finding => finding(subject, "note", text);

/** The finding of what a takeover fails with; undefined for an error that is none of its failures. */
export function failure(subject: Subject, error: unknown): Finding | undefined {
  if (error instanceof TakeoverError) {
    return failed(subject, error);
  }
  return error instanceof Snooze
    ? finding(subject, "fail", `not yet; to be asked again in ${error.seconds} s: ${error.message}`)
    : undefined;
}

/** Before the transfer: what an upload looks at first. */
export function aboutProcessor(facts: Facts, { executable, format }: Wanted): Finding {
  const architecture = facts.get("arch") ?? "";
  const conflict = architectureConflict(format, architecture, facts.all("binfmt"));
  if (conflict !== undefined) {
    return failed("processor", new TakeoverError("TAKEOVER_UPLOAD_WRONG_ARCHITECTURE", conflict));
  }
  switch (format.kind) {
    case "script":
      return ok("processor", `any, for a script; the machine is ${architecture || "not telling"}`);
    case "other":
      return note("processor", `${executable.path} is neither an ELF program nor a #! script`);
    case "elf":
      return architecture === ""
        ? note("processor", "not compared: the machine does not say what it has")
        : ok("processor", architecture);
  }
}

/** Whether the file can be put where it belongs. */
export function aboutTarget(facts: Facts, { targetPath }: Wanted): Finding {
  const folder = facts.get("folder") ?? "?";
  const denied = (reason: string) => failed("target", notWritable(targetPath, reason));
  if (facts.get("isdir") === "yes") {
    return failed("target", isDirectory({ targetPath }));
  }
  if (facts.get("there") === "yes") {
    return ok("target", `${targetPath} is the executable already: nothing to send`);
  }
  if (facts.get("isfolder") !== "yes") {
    return denied(`a part of the path is not a directory (${folder})`);
  }
  if (mountOptions(facts).includes("ro")) {
    return denied(`the file system is read-only (${folder})`);
  }
  // Append-only is as bad as immutable: a file can be made there, and not moved to its place.
  if (facts.all("attributes").some((flags) => /^[a-zA-Z-]*[ai]/.test(flags))) {
    return denied(`no permission to write there (${folder}: immutable or append-only; see lsattr)`);
  }
  if (facts.get("writable") !== "yes") {
    return denied(`no permission to write there (${folder})`);
  }
  if (facts.get("busy") === "yes") {
    return denied("the target is busy: something is mounted there");
  }
  return ok(
    "target",
    facts.get("complete") === "yes"
      ? `${folder} is writable`
      : `${folder} is writable; the folders below it will be made`,
  );
}

/** Whether the file has room: beside the one that it replaces, for it is moved there when it is whole. */
export function aboutSpace(facts: Facts, { executable }: Wanted): Finding {
  if (facts.get("there") === "yes") {
    return ok("space", "not needed");
  }
  const blocks = capacity(facts.get("free"));
  const inodes = capacity(facts.get("inodes"));
  const needed = neededKib(executable);
  if (inodes !== undefined && inodes.total > 0 && inodes.available === 0) {
    return failed("space", uploadFailed("the disk is full (no inode is free)"));
  }
  if (blocks === undefined) {
    return note("space", `not known: the machine has no df that tells; ${kib(needed)} needed`);
  }
  const { total, used, available } = blocks;
  if (needed <= available) {
    return ok("space", `${kib(needed)} needed, ${kib(available)} free`);
  }
  if (facts.get("uid") === "0" && needed <= total - used) {
    return note(
      "space",
      `${kib(needed)} needed, ${kib(available)} free, and ${kib(total - used)} with what is reserved for root`,
    );
  }
  return failed("space", uploadFailed(diskFull(available, needed)));
}

/** Whether the machine has the programs that put the file in place. */
export function aboutTools(facts: Facts, sftp: boolean): Finding {
  if (facts.get("there") === "yes") {
    return ok("tools", "not needed");
  }
  const needless = [
    ...(facts.get("complete") === "yes" ? ["mkdir"] : []),
    ...(sftp ? ["cat"] : []),
  ];
  const lacking = facts.all("lack").filter((tool) => !needless.includes(tool));
  if (lacking.length > 0) {
    return failed("tools", uploadFailed(`the machine has no ${lacking.join(", no ")}`));
  }
  return facts.get("hashes") === "yes"
    ? ok("tools", "all there, with one for SHA-256")
    : note("tools", "none for SHA-256: the file is read back to be checked, which takes longer");
}

/** What the login shell prints of its own accord before a command's output. */
export function aboutStartUp({ preamble, preambleBytes }: Facts): Finding {
  if (preambleBytes === 0) {
    return ok("start-up", "the login shell prints nothing of its own");
  }
  return preambleBytes > LONGEST_PREAMBLE
    ? failed("start-up", tooMuchBefore())
    : note(
        "start-up",
        `${preambleBytes} bytes of text before any output, not minded: "${preamble}"`,
      );
}

/** Whether what lies at the target can be started. */
export function aboutExecution(facts: Facts, { targetPath, format }: Wanted): Finding {
  const obstacle = mountedNoexec(facts, targetPath) ?? loaderMissing(facts, format);
  if (obstacle !== undefined) {
    return failed(
      "execution",
      new TakeoverError(
        "TAKEOVER_RUN_AGENT_NOT_EXECUTABLE",
        `the agent cannot be executed: ${obstacle}`,
      ),
    );
  }
  const loader = loaderOf(format);
  const starts = loader === "" ? "" : `, ${loader} is there`;
  return facts.get("mount") === undefined
    ? note("execution", `whether its file system is mounted noexec is not known${starts}`)
    : ok("execution", `not mounted noexec${starts}`);
}

/** The subjects that nothing was told of, which could not be looked at. */
export function unchecked(told: ReadonlySet<Subject>): Finding[] {
  return SUBJECTS.filter((subject) => !told.has(subject)).map((subject) =>
    finding(subject, "unchecked", "not checked"),
  );
}

function finding(subject: Subject, verdict: Finding["verdict"], text: string): Finding {
  return { subject, verdict, text, code: null };
}

function failed(subject: Subject, error: TakeoverError): Finding {
  return { ...finding(subject, "fail", describe(error)), code: error.code };
}

const uploadFailed = (message: string) => new TakeoverError("TAKEOVER_UPLOAD_FAILED", message);

/** The figures in a line of `df -P`, whose other columns may have spaces in them. */
function capacity(line: string | undefined) {
  const [, total, used, available] =
    /\s(\d+)\s+(\d+)\s+(-?\d+)\s+(?:\d+%|-)/.exec(line ?? "") ?? [];
  return total === undefined
    ? undefined
    : { total: Number(total), used: Number(used), available: Math.max(0, Number(available)) };
}

function kib(blocks: number): string {
  return blocks < 10 * 1024 ? `${blocks} KiB` : `${Math.floor(blocks / 1024)} MiB`;
}
