import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadAgentExecutable } from "../../src/takeover/agent-executable.js";

describe("the agent executable", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "takeover-executable-"));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it("is hashed and measured, also through a link", async () => {
    const content = Buffer.alloc(3_000_000, "agent");
    await writeFile(join(folder, "agent"), content);
    await symlink(join(folder, "agent"), join(folder, "link"));
    const sha256 = createHash("sha256").update(content).digest("hex");
    for (const path of [join(folder, "agent"), join(folder, "link")]) {
      expect(await loadAgentExecutable(path)).toEqual({ path, size: content.length, sha256 });
    }
  });

  it.each<[string, (path: string) => Promise<unknown>, string]>([
    ["does not exist", async () => {}, "does not exist"],
    ["is empty", (path) => writeFile(path, ""), "is empty"],
    ["is a directory", (path) => mkdir(path), "is a directory; a file is wanted"],
    [
      "is a device",
      (path) => symlink("/dev/null", path),
      "is not a regular file; a file is wanted",
    ],
    [
      "is a pipe that nobody writes to",
      async (path) => execFileSync("mkfifo", [path]),
      "is not a regular file; a file is wanted",
    ],
  ])("is refused by one sentence where it %s", async (_what, make, sentence) => {
    const path = join(folder, "agent");
    await make(path);
    await expect(loadAgentExecutable(path)).rejects.toThrow(
      `the agent executable ${path} ${sentence}`,
    );
  });

  it("is refused where a part of its path is a file", async () => {
    await writeFile(join(folder, "file"), "x");
    await expect(loadAgentExecutable(join(folder, "file", "agent"))).rejects.toThrow(
      "a part of its path is not a directory",
    );
  });

  it.skipIf(process.getuid?.() === 0)("is refused where it cannot be read", async () => {
    const path = join(folder, "agent");
    await writeFile(path, "x", { mode: 0o000 });
    await expect(loadAgentExecutable(path)).rejects.toThrow("cannot be read: permission denied");
  });
});
