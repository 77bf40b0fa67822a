import { type Command, Option as CommanderOption } from "commander";
import type { OptionTable } from "../config/option.js";
import type { Flags } from "../config/read-options.js";
import { optionHelp } from "./help.js";

/**
 * Adds the flags of a table to a command. Commander holds the raw texts alone; what they mean, their
 * defaults and the environment are the table's business.
 */
export function addOptions(command: Command, table: OptionTable): Command {
  for (const option of Object.values(table)) {
    if (option.flag !== null) {
      const flags = option.value === null ? option.flag : `${option.flag} ${option.value}`;
      command.addOption(
        new CommanderOption(flags, optionHelp(option)).helpGroup(`${option.group}:`),
      );
    }
  }
  return command;
}

/** What commander found, by flag. */
export function flagsOf(command: Command): Flags {
  const given = command.opts<Record<string, string | true | undefined>>();
  return Object.fromEntries(
    command.options.map((option) => [option.long ?? "", given[option.attributeName()]]),
  );
}
