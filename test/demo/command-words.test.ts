import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { commandOf, plainWords, runsAgent } from "../../src/demo/command-words.js";
import { shellCommand } from "../../src/ssh/shell-words.js";

const inMachine = (name: string) => `/machine${name}`;

describe("a command line of a worker", () => {
  test("is read back into the words that it was made of", () => {
    const text = fc.string({ unit: "grapheme" }).filter((word) => !/\p{Cc}/u.test(word));
    const script = text.filter((word) => !/['\\!\n]/.test(word));
    fc.assert(
      fc.property(script, fc.array(text), (body, parameters) => {
        expect(plainWords(shellCommand(body, parameters))).toEqual([
          "exec",
          "/bin/sh",
          "-c",
          body,
          "sh",
          ...parameters,
        ]);
      }),
    );
  });

  test("has its absolute paths led into the machine's folder, and nothing else", () => {
    const line = shellCommand("cat /etc/passwd", ["m1", "/root/agent", "7", "-", "/../up"]);
    expect(commandOf(line, inMachine)).toEqual({
      program: "/bin/sh",
      arguments: [
        "-c",
        "cat /etc/passwd",
        "sh",
        "m1",
        "/machine/root/agent",
        "7",
        "-",
        "/machine/../up",
      ],
      paths: ["/machine/root/agent", "/machine/../up"],
      script: "cat /etc/passwd",
    });
  });

  test("is known for the agent's run by what it ends with", () => {
    const run = (script: string) => runsAgent(commandOf(shellCommand(script, ["/a"]), inMachine));
    expect(run(`printf x; exec "$1"`)).toBe(true);
    expect(run(`printf x; exec cat "$1"`)).toBe(false);
  });
});

describe("any other command line", () => {
  test.each([
    "pwd; ls",
    "echo $HOME",
    "ls > /tmp/x",
    "cat <<<a",
    "a && b",
    "echo `id`",
    "",
    "'open",
  ])("%j goes to a shell as it is", (line) => {
    expect(commandOf(line, inMachine)).toEqual({
      program: "/bin/sh",
      arguments: ["-c", line],
      paths: [],
      script: null,
    });
  });

  test("of plain words is run on the machine", () => {
    expect(commandOf("ls -l /root", inMachine)).toMatchObject({
      program: "ls",
      arguments: ["-l", "/machine/root"],
    });
  });
});
