import { TakeoverError } from "../errors.js";
import type { Connection } from "../ssh/connection.js";
import { readExecutableFormat } from "./executable-format.js";
import { runScript, type ScriptResult } from "./remote-script.js";
import type { TakeoverSettings } from "./settings.js";

/** How long the machine may take to answer, in milliseconds. */
const ASK_MS = 5000;

/** $1 target, $2 the loader or interpreter it needs, or nothing. The longest mount point that fits wins. */
const LOOK = [
  "LC_ALL=C; export LC_ALL",
  `[ -e "$1" ] && echo there=yes`,
  `[ -x "$1" ] && echo executable=yes`,
  `if [ -z "$2" ] || [ -e "$2" ]; then echo loader=yes; fi`,
  `while read -r d p t o r; do case "$1" in "\${p%/}"/*) echo "mount=$o";; esac; done </proc/mounts`,
].join("; ");

/**
 * Asks the machine, once, why its shell could not execute the agent (exit 126 or 127). Undefined where
 * nothing is wrong with the file: then the agent itself exited so.
 */
export async function whyNotExecutable(
  connection: Connection,
  settings: TakeoverSettings,
  signal: AbortSignal,
): Promise<string | undefined> {
  const format = await readExecutableFormat(settings.executable.path);
  const loader =
    format.kind === "elf" ? format.loader : format.kind === "script" ? format.interpreter : null;
  let found: ScriptResult;
  try {
    found = await runScript(connection, LOOK, [settings.targetPath, loader ?? ""], {
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
    return `${settings.targetPath} is not there any more`;
  }
  if ((found.get("mount") ?? "").split(",").includes("noexec")) {
    return `${settings.targetPath} is on a file system mounted noexec: choose another --agent-target-path`;
  }
  if (found.get("executable") !== "yes") {
    return `${settings.targetPath} is not executable`;
  }
  if (found.get("loader") !== "yes") {
    return `its ${format.kind === "elf" ? "loader" : "interpreter"} ${loader} is not on the machine`;
  }
  return undefined;
}
