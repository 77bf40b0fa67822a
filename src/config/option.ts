import { BadValue } from "./bad-value.js";

/** One setting of a command: where it may come from, what it means, and what makes it valid. */
export interface Option<T> {
  /** Null: it may come from the environment alone. */
  readonly flag: `--${string}` | null;
  readonly environment: string;
  /** What to write after the flag, as the help shows it; null for a switch. */
  readonly value: string | null;
  readonly group: string;
  readonly help: string;
  /** As one would type it; null where there is none. */
  readonly fallback: string | null;
  readonly required: boolean;
  /** Never shown in a message, and may come from a file that `<environment>_FILE` names. */
  readonly secret: boolean;
  /** `null` stands for an option that was not given. Throws BadValue. */
  readonly read: (text: string | null) => T;
}

/** The options of a command, by the names that the code uses for their values. */
export type OptionTable = Readonly<Record<string, Option<unknown>>>;

export type Values<Table> = {
  [Key in keyof Table]: Table[Key] extends Option<infer T> ? T : never;
};

interface Declaration {
  readonly flag: `--${string}`;
  /** Only where it is not derived from the flag. */
  readonly environment?: string;
  readonly value: string;
  readonly group: string;
  readonly help: string;
  readonly secret?: boolean;
}

/** `TAKEOVER_` and the flag in capitals: `--ssh-user` is `TAKEOVER_SSH_USER`. */
export function environmentName(flag: string): string {
  return `TAKEOVER_${flag.replace(/^--/, "").replaceAll("-", "_").toUpperCase()}`;
}

const shared = (option: Declaration) => ({
  flag: option.flag,
  environment: option.environment ?? environmentName(option.flag),
  value: option.value,
  group: option.group,
  help: option.help,
  secret: option.secret ?? false,
});

/** An option that must be given. */
export function required<T>(option: Declaration & { parse: (text: string) => T }): Option<T> {
  const { parse, ...declaration } = option;
  return {
    ...shared(declaration),
    fallback: null,
    required: true,
    read: (text) => {
      if (text === null) {
        const { environment } = shared(declaration);
        throw new BadValue("is missing", `give it, or set ${environment}`);
      }
      return parse(text);
    },
  };
}

/** An option that has a default, written as one would type it. */
export function withDefault<T>(
  option: Declaration & { fallback: string; parse: (text: string) => T },
): Option<T> {
  const { parse, fallback, ...declaration } = option;
  return {
    ...shared(declaration),
    fallback,
    required: false,
    read: (text) => parse(text ?? fallback),
  };
}

/** An option that may be left out: then it is null. */
export function optional<T>(
  option: Declaration & { parse: (text: string) => T },
): Option<T | null> {
  const { parse, ...declaration } = option;
  return {
    ...shared(declaration),
    fallback: null,
    required: false,
    read: (text) => (text === null ? null : parse(text)),
  };
}

/** A flag without a value; in the environment it is `true` or `false`. */
export function toggle(option: Omit<Declaration, "value">): Option<boolean> {
  return {
    ...shared({ ...option, value: "" }),
    value: null,
    fallback: null,
    required: false,
    read: (text) => {
      if (text === "true" || text === "1") {
        return true;
      }
      if (text === null || text === "false" || text === "0") {
        return false;
      }
      throw new BadValue("is neither true nor false", "write true or false");
    },
  };
}

/** A secret that no flag takes, since other users of the system can read a command line. */
export function environmentSecret(option: {
  environment: string;
  group: string;
  help: string;
}): Option<string | null> {
  return {
    ...option,
    flag: null,
    value: null,
    fallback: null,
    required: false,
    secret: true,
    read: (text) => text,
  };
}
