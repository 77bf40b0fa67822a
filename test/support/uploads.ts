import { existsSync } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { expect } from "vitest";
import type { TakeoverSettings } from "../../src/takeover/settings.js";
import { type Uploaded, upload } from "../../src/takeover/upload.js";
import type { SshScene } from "./ssh-scene.js";
import { never } from "./takeover-scene.js";

export const MACHINE_ID = "0a4b1f5e-5b0e-4c6e-9d63-2f6f0f4b9a11";

/** So many megabytes, of a pattern that is as long as no chunk. */
export const big = (megabytes: number) =>
  Buffer.alloc(megabytes * 1024 * 1024, "0123456789abcdef~");

/** Logs in anew and uploads the bench's agent to its target. */
export async function send(
  scene: SshScene,
  changes: Partial<TakeoverSettings> = {},
  { signal = never(), port = scene.sshd.port } = {},
): Promise<Uploaded> {
  const connection = await scene.dial(port);
  const settings = scene.bench.settings(scene.sshd, changes);
  return upload({ connection, machineId: MACHINE_ID }, settings, signal);
}

/** The file is there, whole and executable, and nothing lies beside it. */
export async function expectPlaced(scene: SshScene, target = scene.bench.target): Promise<void> {
  const local = scene.bench.settings(scene.sshd).executable.path;
  expect((await readFile(target)).equals(await readFile(local))).toBe(true);
  expect((await stat(target)).mode & 0o777).toBe(0o755);
  expect((await namesIn(dirname(target))).filter((name) => name.includes("takeover"))).toEqual([]);
}

/** What lies in a folder; nothing, where there is none. */
export async function namesIn(folder: string): Promise<string[]> {
  return existsSync(folder) ? readdir(folder) : [];
}
