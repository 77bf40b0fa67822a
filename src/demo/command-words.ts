/**
 * The command lines of a simulated machine. Its root is a folder on this computer, and a command that runs
 * here sees this computer's root: paths in it must be led into the folder. A shell's language cannot be
 * rewritten soundly, but a worker sends nothing but words, each between quotes (src/ssh/shell-words.ts), so:
 *
 * - A command line that is nothing but words is read into them, here, by the rules all shells share. Each
 *   word that is an absolute path then stands for a path on the machine, save the program's own.
 * - Any other line is a human's. It goes to /bin/sh as it is, which starts in the machine's /root.
 */

/** The words of a line that has nothing in it that a shell would do more with; null for any other line. */
export function plainWords(line: string): string[] | null {
  const found = line.trim().match(/(?:'[^']*'|\\[^\n]|[A-Za-z0-9_/.:=@%+,-])+|\s+|./gs) ?? [];
  const words = found.filter((piece) => piece.trim() !== "");
  if (words.length === 0 || words.some((word) => !/^(?:'[^']*'|\\.|[\w/.:=@%+,-])+$/s.test(word))) {
    return null;
  }
  return words.map((word) => word.replace(/'([^']*)'|\\(.)/gs, "$1$2"));
}

/** What to start for a command line. */
export interface Command {
  readonly program: string;
  readonly arguments: readonly string[];
  /** The arguments that were led into the machine's folder, as they are now. */
  readonly paths: readonly string[];
  /** The script, where the line is one that a worker runs by `/bin/sh -c`. */
  readonly script: string | null;
}

/** @param inMachine what leads an absolute path into the machine's folder */
export function commandOf(line: string, inMachine: (path: string) => string): Command {
  const words = plainWords(line);
  // Our lines begin with `exec`, which replaces the login shell: there is none here.
  const [program, ...rest] = words?.[0] === "exec" ? words.slice(1) : (words ?? []);
  if (program === undefined) {
    return { program: "/bin/sh", arguments: ["-c", line], paths: [], script: null };
  }
  const mapped = rest.map((word) => (word.startsWith("/") ? inMachine(word) : word));
  return {
    program,
    arguments: mapped,
    paths: mapped.filter((word, index) => word !== rest[index]),
    script: program === "/bin/sh" && rest[0] === "-c" ? (rest[1] ?? null) : null,
  };
}

/** Whether this is the worker's command that runs the agent, the machine's one irreversible step. */
export function runsAgent({ script, paths }: Command): boolean {
  return paths.length === 1 && (script ?? "").endsWith(`exec "$1"`);
}
