import { TakeoverError } from "../errors.js";
import type { Connection } from "../ssh/connection.js";
import { type ExecutableFormat, readExecutableFormat } from "./executable-format.js";
import { runScript, type ScriptResult } from "./remote-script.js";
import type { TakeoverSettings } from "./settings.js";

/** How long the machine may take to answer, in milliseconds. */
const ASK_MS = 5000;

/**
 * `mount`: the options that the folder $d is mounted with, and those of its file system. The kernel names the
 * mount of an open folder, so that neither symbolic links nor mounts over mounts lead astray. Linux alone.
 */
export const MOUNT = [
  `(exec 9<"$d"`,
  `while read -r k v; do if [ "$k" = mnt_id: ]; then m=$v; fi; done </proc/self/fdinfo/9`,
  `while read -r n i v r p o x; do if [ "$n" = "$m" ]; then echo "mount=$o,\${x##* }"; fi; done </proc/self/mountinfo) 2>/dev/null`,
].join("; ");

/** `loader`: whether $l is there, the program that the executable needs to be started; or it needs none. */
export const LOADER = `if [ -z "$l" ] || [ -e "$l" ]; then echo loader=yes; fi`;

/** $1 target, $2 the loader or interpreter it needs, or nothing. */
const LOOK = [
  "LC_ALL=C; export LC_ALL",
  `[ -e "$1" ] && echo there=yes`,
  `[ -x "$1" ] && echo executable=yes`,
  "l=$2",
  LOADER,
  `d=\${1%/*}; d=\${d:-/}`,
  MOUNT,
].join("; ");

/** The program that starts the executable: an ELF's loader, a script's interpreter, or "" for none. */
export function loaderOf(format: ExecutableFormat): string {
  switch (format.kind) {
    case "elf":
      return format.loader ?? "";
    case "script":
      return format.interpreter;
    case "other":
      return "";
  }
}

/** Undefined unless MOUNT says that nothing there can be executed. */
export function mountedNoexec(
  found: Pick<ScriptResult, "get">,
  targetPath: string,
): string | undefined {
  return mountOptions(found).includes("noexec")
    ? `${targetPath} is on a file system mounted noexec: choose another --agent-target-path`
    : undefined;
}

/** Undefined unless LOADER says that it is not there. */
export function loaderMissing(
  found: Pick<ScriptResult, "get">,
  format: ExecutableFormat,
): string | undefined {
  const role = format.kind === "elf" ? "loader" : "interpreter";
  return found.get("loader") === "yes"
    ? undefined
    : `its ${role} ${loaderOf(format)} is not on the machine`;
}

/** The answer to MOUNT, option by option; none where the machine did not tell. */
export function mountOptions(found: Pick<ScriptResult, "get">): string[] {
  return found.get("mount")?.split(",") ?? [];
}

/**
 * Asks the machine, once, why its shell could not execute the agent (exit 126 or 127). Undefined where
 * nothing is wrong with the file: then the agent itself exited so.
 */
export async function whyNotExecutable(
  connection: Connection,
  settings: TakeoverSettings,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { targetPath } = settings;
  const format = await readExecutableFormat(settings.executable.path);
  let found: ScriptResult;
  try {
    found = await runScript(connection, LOOK, [targetPath, loaderOf(format)], {
      ms: ASK_MS,
      signal,
      late: () =>
        new TakeoverError(
          "TAKEOVER_RUN_AGENT_TIMEOUT",
          `the machine did not say within ${ASK_MS / 1000}s why the agent cannot be executed`,
        ),
    });
  } catch (error) {
    if (signal.aborted) {
      throw error;
    }
    return undefined; // The exit code stands for itself.
  }
  if (found.get("there") !== "yes") {
    return `${targetPath} is not there any more`;
  }
  const notExecutable =
    found.get("executable") === "yes" ? undefined : `${targetPath} is not executable`;
  return mountedNoexec(found, targetPath) ?? notExecutable ?? loaderMissing(found, format);
}
