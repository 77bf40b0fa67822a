import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createKeyPair } from "../../src/ssh/keygen.js";
import { parsePrivateKey } from "../../src/ssh/private-key.js";

const missing = spawnSync("ssh-keygen", ["-?"]).error !== undefined;
if (missing && process.env.CI) {
  throw new Error("ssh-keygen is missing: apt-get install -y openssh-client");
}
const unless = missing ? " (skipped; apt-get install -y openssh-client mends it)" : "";

const folder = mkdtempSync(join(tmpdir(), "takeover-keygen-"));
afterAll(() => rmSync(folder, { recursive: true }));
const mode = (path: string) => statSync(path).mode & 0o777;

describe("a new key pair", () => {
  it("is an Ed25519 key that its owner alone can read, and its public line", () => {
    const path = join(folder, "new");
    const line = createKeyPair(path, "someone");
    expect(line).toMatch(/^ssh-ed25519 \S+ someone$/);
    expect(readFileSync(`${path}.pub`, "utf8")).toBe(`${line}\n`);
    expect(mode(path)).toBe(0o600);
    expect(mode(`${path}.pub`) & 0o600).toBe(0o600);
    const { publicLine } = parsePrivateKey(readFileSync(path), null);
    expect(line).toBe(`${publicLine} someone`);
  });

  it("is never the same twice", () => {
    expect(createKeyPair(join(folder, "a"), "c")).not.toBe(createKeyPair(join(folder, "b"), "c"));
  });

  it.skipIf(missing)(`is what ssh-keygen reads, for comments of any length${unless}`, () => {
    for (let length = 1; length <= 16; length++) {
      const path = join(folder, `read${length}`);
      const line = createKeyPair(path, "c".repeat(length));
      const read = spawnSync("ssh-keygen", ["-y", "-f", path], { encoding: "utf8" });
      expect(read.stderr).toBe("");
      expect(read.stdout.trim()).toBe(line);
    }
  });

  it.each(["", ".pub"])("overwrites nothing and leaves nothing: PATH%s exists", (suffix) => {
    const path = join(folder, `taken${suffix.length}`);
    writeFileSync(path + suffix, "precious");
    expect(() => createKeyPair(path, "c")).toThrow(
      suffix === "" ? /^exists already/ : /^with .pub added exists already/,
    );
    expect(readFileSync(path + suffix, "utf8")).toBe("precious");
    expect(existsSync(suffix === "" ? `${path}.pub` : path)).toBe(false);
  });

  it("is not made where a directory has its name, or its folder does not exist", () => {
    const path = join(folder, "directory");
    mkdirSync(path);
    expect(() => createKeyPair(path, "c")).toThrow("exists already");
    expect(existsSync(`${path}.pub`)).toBe(false);
    expect(() => createKeyPair(join(folder, "no", "where"), "c")).toThrow(
      "is in a folder that does not exist",
    );
  });
});
