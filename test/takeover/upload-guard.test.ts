import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { GUARD, GUARD_BEGIN, GUARD_OVER } from "../../src/takeover/upload-scripts.js";

describe("the guard of a partial file", () => {
  let folder: string;
  let file: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "takeover-guard-"));
    file = join(folder, "agent.takeover-machine.0123");
    await writeFile(file, "half");
  });
  afterEach(() => rm(folder, { recursive: true }));

  const start = () => {
    const guard = spawn("/bin/sh", ["-c", GUARD, "sh", file]);
    return { guard, closed: once(guard, "close") };
  };

  it.each([
    ["is told that the upload is over", `${GUARD_BEGIN}\n${GUARD_OVER}\n`],
    ["loses its connection", `${GUARD_BEGIN}\n`],
  ])("removes it when it %s", async (_when, heard) => {
    const { guard, closed } = start();
    guard.stdin.end(heard);
    await closed;
    expect(existsSync(file)).toBe(false);
  });

  it("removes it also where it is created only after the connection was lost", async () => {
    await rm(file);
    const { guard, closed } = start();
    guard.stdin.end(`${GUARD_BEGIN}\n`);
    await writeFile(file, "half");
    await closed;
    expect(existsSync(file)).toBe(false);
  });

  it("removes nothing where the transfer never began with it", async () => {
    const { guard, closed } = start();
    guard.stdin.end();
    await closed;
    expect(existsSync(file)).toBe(true);
  });
});
