import { readFile } from "../config/read-file.js";
import { fault } from "../config/read-options.js";
import { printable } from "../errors.js";
import { type PrivateKey, parsePrivateKey } from "../ssh/private-key.js";
import { type AgentExecutable, loadAgentExecutable } from "../takeover/agent-executable.js";

/**
 * The files that options point at. Each is undefined where its path, or what it leads to, is at fault; a fault
 * that was not known yet is added to `faults`.
 */

const LONGEST_KEY = 64 * 1024;

/** What `from` makes of the file at `path`; null where no path was given. */
export function loadFile<T>(
  path: string | null | undefined,
  name: string,
  faults: string[],
  from: (path: string) => T,
): T | null | undefined {
  if (path === undefined || path === null) {
    return path;
  }
  try {
    return from(path);
  } catch (error) {
    // Throws on what is no BadValue: that is a bug and not the operator's.
    faults.push(fault(name, error, path));
    return undefined;
  }
}

export function loadSshKey(
  path: string | undefined,
  passphrase: string | null | undefined,
  name: string,
  faults: string[],
): PrivateKey | undefined {
  // A passphrase that could not be read is a fault already; that the key is then locked is not another.
  if (passphrase === undefined) {
    return undefined;
  }
  const parse = (from: string) => parsePrivateKey(readFile(from, LONGEST_KEY), passphrase);
  return loadFile(path, name, faults, parse) ?? undefined;
}

/** Its loader's sentences name the file; here the option and the remedy are added. */
export async function loadExecutable(
  path: string | undefined,
  name: string,
  faults: string[],
): Promise<AgentExecutable | undefined> {
  if (path === undefined) {
    return undefined;
  }
  try {
    return await loadAgentExecutable(path);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    faults.push(`${name}: ${printable(reason)}; give the agent's file, which this user can read.`);
    return undefined;
  }
}
