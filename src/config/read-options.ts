import { printable } from "../errors.js";
import { BadValue } from "./bad-value.js";
import { ConfigurationFaults } from "./exit.js";
import type { Option, OptionTable, Values } from "./option.js";
import { readFile } from "./read-file.js";

/** What the command line gave, by flag (`--ssh-user`); a switch is `true`. */
export type Flags = Readonly<Record<string, string | true | undefined>>;
export type Environment = Readonly<Record<string, string | undefined>>;

const LONGEST_SECRET = 64 * 1024;
const LONGEST_QUOTE = 80;

/** What was read: values without those that are faulty, and a sentence for each that is. */
export interface Reading<Table extends OptionTable> {
  readonly values: Partial<Values<Table>>;
  readonly faults: string[];
  /** All values, once no fault was found; throws ConfigurationFaults otherwise. */
  readonly complete: () => Values<Table>;
  /** How to call each option in a message: its flag, and the variable where its value came from one. */
  readonly names: Readonly<Record<keyof Table, string>>;
}

interface Found {
  readonly name: string;
  readonly text: string | null;
}

/**
 * Reads every option of a table: flag over environment over default. All faults are collected; nothing
 * is thrown for a bad value.
 */
export function readOptions<Table extends OptionTable>(
  table: Table,
  flags: Flags,
  environment: Environment,
): Reading<Table> {
  const values: Record<string, unknown> = {};
  const faults: string[] = [];
  const names: Record<string, string> = {};
  for (const [key, option] of Object.entries(table)) {
    names[key] = nameOf(option);
    let text: string | null = null;
    try {
      const found = find(
        option,
        option.flag === null ? undefined : flags[option.flag],
        environment,
      );
      names[key] = found.name;
      text = found.text;
      values[key] = option.read(text);
    } catch (error) {
      faults.push(fault(names[key], error, option.secret ? null : text));
    }
  }
  return {
    values: values as Partial<Values<Table>>,
    faults,
    names: names as Record<keyof Table, string>,
    complete() {
      if (faults.length > 0) {
        throw new ConfigurationFaults(faults);
      }
      return values as Values<Table>;
    },
  };
}

function find(option: Option<unknown>, flag: string | true | undefined, env: Environment): Found {
  const name = nameOf(option);
  if (flag !== undefined) {
    return { name, text: flag === true ? "true" : flag };
  }
  // An empty variable counts as unset: that is what compose files and unit files make of a value left out.
  const plain = env[option.environment] || null;
  const file = (option.secret && env[`${option.environment}_FILE`]) || null;
  if (plain !== null && file !== null) {
    throw new BadValue(
      `is set twice, by ${option.environment} and ${option.environment}_FILE`,
      "unset one of them",
    );
  }
  if (file !== null) {
    return { name: from(option, `${option.environment}_FILE`), text: secretIn(file, option) };
  }
  return { name: plain === null ? name : from(option, option.environment), text: plain };
}

/** The content of a secret's file without the line break that editors and `echo` put at its end. */
function secretIn(path: string, option: Option<unknown>): string {
  const variable = `${option.environment}_FILE`;
  try {
    const text = readFile(path, LONGEST_SECRET)
      .toString("utf8")
      .replace(/\r?\n$/, "");
    if (text === "") {
      throw new BadValue("is empty", "put the secret into it");
    }
    return text;
  } catch (error) {
    if (error instanceof BadValue) {
      const quoted = printable(path, LONGEST_QUOTE);
      throw new BadValue(`(from ${variable}): "${quoted}" ${error.message}`, error.remedy);
    }
    throw error;
  }
}

const nameOf = (option: Option<unknown>) => option.flag ?? option.environment;

const from = (option: Option<unknown>, variable: string) =>
  option.flag === null ? variable : `${option.flag} (from ${variable})`;

/**
 * One sentence for a value that cannot be used: the option, the value unless it is a secret (`null`), the
 * problem, the remedy.
 */
export function fault(name: string, error: unknown, value: string | null): string {
  if (!(error instanceof BadValue)) {
    throw error;
  }
  const subject = value === null ? name : `${name}: "${printable(value, LONGEST_QUOTE)}"`;
  return `${subject} ${error.message}; ${error.remedy}.`;
}
