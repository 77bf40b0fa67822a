import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { parseDuration } from "../../src/config/duration.js";
import { ConfigurationFaults } from "../../src/config/exit.js";
import {
  environmentName,
  environmentSecret,
  optional,
  required,
  toggle,
  withDefault,
} from "../../src/config/option.js";
import { readOptions } from "../../src/config/read-options.js";

const group = "Test";
const help = "";
const table = {
  token: required({ flag: "--token", value: "<t>", group, help, secret: true, parse: String }),
  pause: withDefault({
    flag: "--long-pause",
    value: "<duration>",
    group,
    help,
    fallback: "2s",
    parse: (text) => parseDuration(text),
  }),
  note: optional({ flag: "--note", value: "<n>", group, help, parse: String }),
  loud: toggle({ flag: "--loud", group, help }),
  phrase: environmentSecret({ environment: "PHRASE", group, help }),
};
const given = { TAKEOVER_TOKEN: "t" };

const folder = mkdtempSync(join(tmpdir(), "takeover-options-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (name: string, content: string) => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};

describe("where a value comes from", () => {
  it("is the default, the environment before it, a flag before both", () => {
    const pause = (flags: Record<string, string>, env: Record<string, string>) =>
      readOptions(table, flags, { ...given, ...env }).complete().pause;
    expect(pause({}, {})).toBe(2000);
    expect(pause({}, { TAKEOVER_LONG_PAUSE: "3s" })).toBe(3000);
    expect(pause({ "--long-pause": "4s" }, { TAKEOVER_LONG_PAUSE: "3s" })).toBe(4000);
  });

  it("derives the variable from the flag", () => {
    expect(environmentName("--agent-ca-certificate-path")).toBe(
      "TAKEOVER_AGENT_CA_CERTIFICATE_PATH",
    );
  });

  it("is null for an option that was left out", () => {
    expect(readOptions(table, {}, given).complete()).toMatchObject({ note: null, phrase: null });
  });

  it("takes an empty variable for unset, and an empty flag for a value", () => {
    const { values, faults } = readOptions(
      table,
      { "--long-pause": "" },
      { ...given, TAKEOVER_NOTE: "" },
    );
    expect(values.note).toBeNull();
    expect(faults).toEqual([
      '--long-pause: "" is not a duration; write it like 250ms, 2s, 1m30s, 36h or 90d.',
    ]);
  });

  it("does not look at the environment of an option whose flag is given", () => {
    const env = { TAKEOVER_TOKEN: "a", TAKEOVER_TOKEN_FILE: "/nowhere" };
    expect(readOptions(table, { "--token": "b" }, env).complete().token).toBe("b");
  });

  it.each([
    ["true", true],
    ["1", true],
    ["false", false],
    ["0", false],
  ])("reads a switch from the environment: %s", (text, value) => {
    expect(readOptions(table, {}, { ...given, TAKEOVER_LOUD: text }).complete().loud).toBe(value);
  });

  it("turns a switch on by its flag, whatever the environment says", () => {
    const read = readOptions(table, { "--loud": true }, { ...given, TAKEOVER_LOUD: "false" });
    expect(read.complete().loud).toBe(true);
  });
});

describe("a secret", () => {
  it("may stand in a file, whose last line break is not part of it", () => {
    const env = {
      TAKEOVER_TOKEN_FILE: file("token", " a b \n"),
      PHRASE_FILE: file("phrase", "p\r\n"),
    };
    expect(readOptions(table, {}, env).complete()).toMatchObject({ token: " a b ", phrase: "p" });
  });

  it("is not looked for in a file where the option is no secret", () => {
    const read = readOptions(table, {}, { ...given, TAKEOVER_NOTE_FILE: file("note", "x") });
    expect(read.complete().note).toBeNull();
  });

  it.each([
    [
      "both forms",
      { PHRASE: "x", PHRASE_FILE: "y" },
      "PHRASE is set twice, by PHRASE and PHRASE_FILE; unset one of them.",
    ],
    [
      "an absent file",
      { PHRASE_FILE: "/nowhere" },
      'PHRASE (from PHRASE_FILE): "/nowhere" does not exist; check the path.',
    ],
    [
      "a directory",
      { PHRASE_FILE: "/" },
      'PHRASE (from PHRASE_FILE): "/" is a directory; give a file.',
    ],
    [
      "an endless file",
      { PHRASE_FILE: "/dev/zero" },
      'PHRASE (from PHRASE_FILE): "/dev/zero" is too large; give a file of at most 65536 bytes.',
    ],
    [
      "an empty file",
      { PHRASE_FILE: "/dev/null" },
      'PHRASE (from PHRASE_FILE): "/dev/null" is empty; put the secret into it.',
    ],
  ])("cannot come from %s", (_, env, sentence) => {
    expect(readOptions(table, {}, { ...given, ...env }).faults).toEqual([sentence]);
  });

  it("is in no message", () => {
    const strict = {
      token: required({
        flag: "--token",
        value: "<t>",
        group,
        help,
        secret: true,
        parse: (text) => parseDuration(text),
      }),
    };
    const { faults } = readOptions(strict, { "--token": "hunter2" }, {});
    expect(faults).toEqual([
      "--token is not a duration; write it like 250ms, 2s, 1m30s, 36h or 90d.",
    ]);
  });
});

describe("faults", () => {
  it("are collected, each with its option, where its value came from, and the remedy", () => {
    const read = readOptions(
      table,
      { "--long-pause": "0s" },
      { TAKEOVER_LOUD: "yes\u001b[31m", PHRASE: "x", PHRASE_FILE: "y" },
    );
    expect(read.faults).toEqual([
      "--token is missing; give it, or set TAKEOVER_TOKEN.",
      '--long-pause: "0s" is zero; give a duration above zero.',
      '--loud (from TAKEOVER_LOUD): "yes [31m" is neither true nor false; write true or false.',
      "PHRASE is set twice, by PHRASE and PHRASE_FILE; unset one of them.",
    ]);
    expect(() => read.complete()).toThrow(ConfigurationFaults);
  });
});
