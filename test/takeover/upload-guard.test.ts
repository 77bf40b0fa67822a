import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Connection, Ending } from "../../src/ssh/connection.js";
import { guardUpload } from "../../src/takeover/upload-guard.js";
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

  it("lets the upload go on once its process has ended, and not before, unless the attempt is aborted", async () => {
    const did: string[] = [];
    let exit = (_ending: Ending) => {};
    const ended = new Promise<Ending>((resolve) => {
      exit = resolve;
    });
    const connection = {
      exec: async () => ({
        ended,
        write: async () => true,
        end: () => void did.push("end"),
        close: () => void did.push("close"),
      }),
    } as unknown as Connection;
    const { signal } = new AbortController();
    const limit = { ms: 1000, signal, late: () => new Error("late") };
    const guard = await guardUpload(connection, file, limit);
    const released = guard?.release(signal).then(() => did.push("released"));
    await setImmediate();
    expect(did).toEqual(["end"]);
    exit({ how: "exited", code: 0 });
    await released;
    expect(did).toEqual(["end", "close", "released"]);
    await (await guardUpload(connection, file, limit))?.release(AbortSignal.abort());
  });
});
