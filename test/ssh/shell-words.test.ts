import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { quoted, shellCommand } from "../../src/ssh/shell-words.js";

const find = (name: string): string | undefined =>
  (process.env.PATH ?? "")
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find(existsSync);

const AWKWARD = [
  "/root/agent",
  "/root/my agent",
  "/root/it's",
  "/root/what!?",
  "/root/!!",
  "/root/$HOME/$" + "{x}/$(id)/`id`",
  '/root/"quoted"',
  "/root/back\\slash\\",
  "/root/trailing\\'",
  "/root/* ? [a-z] {a,b} ~ # % & ; | < > ( )",
  "/root/ünïcödé/日本",
  "-n",
  "",
];

/** Printed with a separator that no argument has. */
const PRINT = `for a in "$@"; do printf "%s@@" "$a"; done`;

describe("command lines", () => {
  for (const shell of ["sh", "dash", "bash", "ksh", "zsh", "csh", "tcsh", "fish"]) {
    const path = find(shell);
    const run = (parameters: string[]): string[] =>
      execFileSync(path ?? shell, ["-c", shellCommand(PRINT, parameters)], { encoding: "utf8" })
        .split("@@")
        .slice(0, -1);

    it.skipIf(path === undefined)(`mean the same to ${shell}`, () => {
      expect(run(AWKWARD)).toEqual(AWKWARD);
    });

    it.skipIf(path === undefined)(`mean the same to ${shell}, whatever the words are`, () => {
      const word = fc.string({
        unit: fc.constantFrom(..."'\\!$`\"*?[]{}()<>|&;#~^%= ab-,.:@é".split("")),
        maxLength: 12,
      });
      const words = fc.sample(
        word.filter((text) => !text.includes("@@") && !text.endsWith("@") && !text.startsWith("@")),
        200,
      );
      expect(run(words)).toEqual(words);
    });
  }

  it("refuse what cannot be quoted alike", () => {
    expect(() => quoted("a\nb")).toThrow(RangeError);
    expect(() => quoted("a\0b")).toThrow(RangeError);
    expect(() => shellCommand("echo 'x'", [])).toThrow(RangeError);
  });
});
