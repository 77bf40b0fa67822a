import type { Command, Help } from "commander";
import type { Option, OptionTable } from "../config/option.js";

const INDENT = 6;
const WIDTH = 80;

/** What the help says of an option: its meaning, then on a line of its own what else may set it. */
export function optionHelp(option: Option<unknown>): string {
  const notes = [option.environment];
  if (option.secret) {
    notes.push(`${option.environment}_FILE`);
  }
  if (option.required) {
    notes.push("required");
  }
  if (option.fallback !== null) {
    notes.push(`default ${option.fallback}`);
  }
  return `${option.help}\n[${notes.join(", ")}]`;
}

/**
 * Options have long names here: their texts stand below them, not beside them, so that 80 columns do.
 * What comes from the environment alone is told at the end.
 */
export function describeOptions(command: Command, table: OptionTable): void {
  command.configureHelp({
    formatItem(this: Help, term, _termWidth, description, helper) {
      const text = helper.boxWrap(description, WIDTH - INDENT);
      return `  ${term}\n${text.replace(/^/gm, " ".repeat(INDENT))}`;
    },
    helpWidth: WIDTH,
  });
  command.addHelpText("after", () => environmentHelp(table));
}

function environmentHelp(table: OptionTable): string {
  const items = Object.values(table)
    .filter((option) => option.flag === null)
    .map(
      (option) =>
        `  ${option.environment}\n      ${option.help}\n      [or ${option.environment}_FILE]\n`,
    );
  return [
    "",
    ...(items.length > 0 ? ["Environment only:", ...items] : []),
    "A flag goes before its environment variable, and that before the default. An",
    "empty variable counts as unset. …_FILE names a file that holds the value.",
    "Durations: 250ms, 2s, 1m30s, 36h, 90d.",
  ].join("\n");
}
