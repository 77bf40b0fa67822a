/** Exit codes, and the two errors that a command ends with on purpose. */

export const EXIT = {
  done: 0,
  /** It ran, and the answer is no; also a second signal, and what nobody foresaw. */
  no: 1,
  /** Usage or configuration, found before any connection to Postgres. */
  configuration: 2,
  database: 3,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/**
 * What is wrong with the configuration: everything that was found, so that it is mended in one go.
 * Each fault is one sentence that names the option and the remedy, and holds no secret.
 */
export class ConfigurationFaults extends Error {
  override readonly name = "ConfigurationFaults";
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(faults.join(" "));
    this.faults = faults;
  }
}

/**
 * The database cannot serve: unreachable at start, a schema older or newer than this program's, a role
 * without the rights it needs. The message names the remedy, such as `takeover migrate`.
 */
export class DatabaseUnusable extends Error {
  override readonly name = "DatabaseUnusable";
}
