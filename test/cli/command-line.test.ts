import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { WORKER_OPTIONS } from "../../src/config/worker-options.js";
import { MAIN, takeover, takeoverHere } from "./command-line.js";

const folder = mkdtempSync(join(tmpdir(), "takeover-cli-"));
afterAll(() => rmSync(folder, { recursive: true }));

describe("help", () => {
  it.each([
    [["--help"]],
    [["worker", "--help"]],
    [["migrate", "-h"]],
    [["help", "keygen"]],
    [["check", "--help"]],
  ])("%j goes to standard output, in 80 columns, and is no error", async (args) => {
    const { code, out, err } = await takeoverHere(args);
    expect(code).toBe(0);
    expect(err).toEqual([]);
    expect(Math.max(...out.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it("tells of each option its variable and its default", async () => {
    const { out } = await takeoverHere(["worker", "--help"]);
    for (const option of Object.values(WORKER_OPTIONS)) {
      const from = out.indexOf(`\n  ${option.flag ?? option.environment}`);
      expect(from).toBeGreaterThan(0);
      const text = out.slice(from, out.indexOf("]", from));
      expect(text).toContain(option.environment);
      if (option.fallback !== null) {
        expect(text).toContain(`default ${option.fallback}`);
      }
    }
  });

  it("ends well when its reader has seen enough", () => {
    const command = `"$0" "$1" worker --help | head -n 1; echo "\${PIPESTATUS[0]}"`;
    const ran = spawnSync("bash", ["-c", command, process.execPath, MAIN], { encoding: "utf8" });
    expect(ran.stdout).toBe("Usage: takeover worker [options]\n0\n");
    expect(ran.stderr).toBe("");
  });
});

describe("the version", () => {
  it("is the package's", async () => {
    const { version } = JSON.parse(
      readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
    );
    expect(await takeover(["--version"])).toEqual({ code: 0, out: `${version}\n`, err: [] });
  });
});

describe("a command line that makes no sense", () => {
  it.each([
    [["frobnicate"], "unknown command 'frobnicate'"],
    [["worker", "--frob"], "unknown option '--frob'"],
    [["worker", "--ssh-user"], "option '--ssh-user <name>' argument missing"],
    [["worker", "extra"], "too many arguments for 'worker'"],
    [["keygen"], "missing required argument 'PATH'"],
  ])("%j ends with 2 and one line", async (args, problem) => {
    const { code, out, err } = await takeoverHere(args);
    expect(code).toBe(2);
    expect(out).toBe("");
    expect(err).toHaveLength(1);
    expect(err[0]).toContain(`takeover: ${problem}`);
    expect(err[0]).toContain("see takeover --help");
  });

  it("shows the commands where none was given, and ends with 2", async () => {
    const { code, err } = await takeoverHere([]);
    expect(code).toBe(2);
    expect(err.join("\n")).toContain("keygen <PATH>");
  });
});

describe("keygen", () => {
  it("prints the public line and nothing else", async () => {
    const path = join(folder, "key");
    const { code, out, err } = await takeoverHere(["keygen", path]);
    expect(code).toBe(0);
    expect(err).toEqual([]);
    expect(out).toMatch(/^ssh-ed25519 [A-Za-z0-9+/=]+ takeover\n$/);
    expect(readFileSync(`${path}.pub`, "utf8")).toBe(out);
  });

  it("overwrites nothing, and ends with 2", async () => {
    const path = join(folder, "once");
    await takeoverHere(["keygen", path]);
    const before = readFileSync(path, "utf8");
    expect(await takeoverHere(["keygen", path])).toEqual({
      code: 2,
      out: "",
      err: [
        `takeover: PATH: "${path}" with .pub added exists already; choose another path; a key is never overwritten.`,
      ],
    });
    expect(readFileSync(path, "utf8")).toBe(before);
    rmSync(`${path}.pub`);
    expect((await takeoverHere(["keygen", path])).err[0]).toContain(`"${path}" exists already`);
    expect(existsSync(`${path}.pub`)).toBe(false);
  });

  it("wants a folder that exists", async () => {
    const { code, err } = await takeoverHere(["keygen", join(folder, "no", "key")]);
    expect(code).toBe(2);
    expect(err[0]).toContain("is in a folder that does not exist; make it first.");
  });
});
