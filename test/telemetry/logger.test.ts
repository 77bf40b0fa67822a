import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { Snooze, TakeoverError } from "../../src/errors.js";
import type { LogFields } from "../../src/telemetry/log-fields.js";
import { createLogger } from "../../src/telemetry/logger.js";

/** A logger whose lines can be looked at. */
function recorder(options: { level?: "debug" | "info" | "silent"; readable?: boolean } = {}) {
  const written: string[] = [];
  const logger = createLogger({
    level: options.level ?? "info",
    destination: { write: (line) => void written.push(line) },
    readable: options.readable ?? false,
  });
  return { logger, written, lines: () => written.map((line) => JSON.parse(line)) };
}

const logged = (fields: object) => {
  const { logger, written, lines } = recorder();
  logger.info(fields as LogFields, "m");
  return { text: written.join(""), line: lines()[0] };
};

describe("a log line", () => {
  it("is one JSON object with a time, a level by name, the fields and the message", () => {
    const { logger, lines } = recorder();
    logger.child({ machineId: "m1", attempt: 7 }).warn({ step: "dial", durationMs: 5 }, "slow");
    expect(lines()).toEqual([
      {
        level: "warn",
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
        machineId: "m1",
        attempt: 7,
        step: "dial",
        durationMs: 5,
        msg: "slow",
      },
    ]);
  });

  it("is left out below the level", () => {
    const { logger, written } = recorder();
    logger.debug({}, "no");
    expect(written).toEqual([]);
    const silent = recorder({ level: "silent" });
    silent.logger.fatal({}, "no");
    expect(silent.written).toEqual([]);
  });

  it("is for human eyes where it is to be readable", () => {
    const { logger, written } = recorder({ readable: true });
    logger.info({ machineId: "m1" }, "hello");
    expect(written.join("")).toContain("hello");
    expect(written.join("")).not.toMatch(/^\{/);
  });
});

describe("an error in a log line", () => {
  it("has its code, its step and its chain of causes on one line, and no stack", () => {
    const error = new TakeoverError("TAKEOVER_DIAL_REFUSED", "nothing listens\nthere", {
      cause: new Error("connect ECONNREFUSED 192.0.2.1:22"),
    });
    expect(logged({ err: error }).line.err).toEqual({
      type: "TakeoverError",
      message: "nothing listens there: connect ECONNREFUSED 192.0.2.1:22",
      code: "TAKEOVER_DIAL_REFUSED",
      step: "dial",
    });
    expect(logged({ err: new Snooze("not ready", 30) }).line.err).toEqual({
      type: "Snooze",
      message: "not ready",
    });
  });

  it("has a stack where nobody foresaw it, without the text that may come from a machine", () => {
    const error = new TypeError("x\u001b[31m\n    at evil (\u001b[32m)");
    const { err } = logged({ err: error }).line;
    expect(err.message).toBe("x [31m at evil ( [32m)");
    expect(err.stack).toContain("logger.test.ts");
    expect(err.stack).not.toContain("\u001b");
  });

  it("shows nothing that a library hung on it, and no password of a URL it quotes", () => {
    const error = Object.assign(new Error("cannot reach postgres://takeover:hunter2@db/x"), {
      input: "hunter2",
      config: { password: "hunter2" },
    });
    const { text, line } = logged({ err: error });
    expect(text).not.toContain("hunter2");
    expect(line.err.message).toBe("cannot reach postgres://takeover:[redacted]@db/x");
  });

  it("may be anything that was thrown", () => {
    expect(logged({ err: "just text" }).line.err).toEqual({ type: "string", message: "just text" });
    expect(logged({ err: undefined }).line.msg).toBe("m");
  });
});

describe("a secret", () => {
  it.each(["password", "passphrase", "privateKey", "sshKey", "databaseUrl", "nonce", "token"])(
    "is not written: %s",
    (key) => {
      const { text, line } = logged({ [key]: "hunter2", settings: { [key]: "hunter2" } });
      expect(text).not.toContain("hunter2");
      expect(line[key]).toBe("[redacted]");
      expect(line.settings[key]).toBe("[redacted]");
    },
  );
});

describe("a log that goes to a file descriptor", () => {
  const program = (body: string) => `
    const { createLogger } = await import(${JSON.stringify(new URL("../../dist/src/telemetry/logger.js", import.meta.url).href)});
    const logger = createLogger({ level: "info", destination: 1, readable: READABLE });
    ${body}`;
  const runs = (body: string, readable: boolean, shell = "") =>
    spawnSync(
      "sh",
      [
        "-c",
        `"$0" --input-type=module -e "$1" ${shell}`,
        process.execPath,
        program(body).replace("READABLE", String(readable)),
      ],
      {
        encoding: "utf8",
        timeout: 20_000,
      },
    );

  it.each([true, false])(
    "has its last line out before the process exits (readable: %s)",
    (readable) => {
      const { stdout } = runs(
        'for (let i = 0; i < 5000; i++) logger.info({ count: i }, "filler"); logger.fatal({}, "the last"); process.exit(1);',
        readable,
        "| tail -n 1",
      );
      expect(stdout).toContain("the last");
    },
  );

  it.each([
    ["its reader goes away", "| head -n 1"],
    ["its disk is full", ">/dev/full"],
  ])("lets the process go on when %s", (_, shell) => {
    const { stderr } = runs(
      'for (let i = 0; i < 5000; i++) { logger.info({ count: i }, "filler"); if (i % 1000 === 0) await new Promise((r) => setTimeout(r, 20)); } process.stderr.write("went on");',
      false,
      shell,
    );
    expect(stderr).toBe("went on");
  });
});
