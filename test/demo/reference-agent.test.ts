import { spawn } from "node:child_process";
import { createPrivateKey, createPublicKey } from "node:crypto";
import { copyFile, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { PACKAGE_ROOT } from "../../src/config/package-root.js";
import { buildInit, encodeInit } from "../../src/takeover/init.js";
import type { AgentReply } from "../../src/takeover/run-agent.js";
import type { TakeoverSettings } from "../../src/takeover/settings.js";
import { verify } from "../../src/takeover/verify.js";
import { failureOf } from "../support/rejection.js";
import { machineAt, never } from "../support/takeover-scene.js";
import { waitFor, within } from "../support/wait.js";
import { processesOf } from "./leftovers.js";

// The compiled file, as it is uploaded: under a name without an extension, with no package.json around.

let folder: string;
let agent: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "takeover-reference-agent-"));
  agent = path.join(folder, "agent");
  await copyFile(path.join(PACKAGE_ROOT, "dist", "src", "demo", "reference-agent.js"), agent);
});

afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
  await waitFor("the agents end with their key", () => processesOf(agent).length === 0);
});

const settings = {
  endpoint: "control.example:8443",
  caCertificate: new Uint8Array([48, 1, 2]),
} as unknown as TakeoverSettings;

async function run(input: Buffer): Promise<{ reply: AgentReply; code: number | null }> {
  const child = spawn(process.execPath, [agent], { stdio: ["pipe", "pipe", "pipe"] });
  const output: Buffer[] = [];
  let stderr = "";
  child.stdout.on("data", (chunk) => output.push(chunk));
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  child.stdin.on("error", () => {}); // It need not read more than it bears.
  child.stdin.end(input);
  const code = await within(
    "the agent exits and lets go of its streams",
    10_000,
    new Promise<number | null>((resolve) => child.once("close", resolve)),
  );
  return { reply: { bytes: Buffer.concat(output), stderr, cutShort: null }, code };
}

const held = async () =>
  createPublicKey(createPrivateKey(await readFile(`${agent}.key`))).export({ format: "jwk" }).x;

describe("the reference agent", () => {
  test("answers so that a worker accepts it, and keeps the private half for its owner alone", async () => {
    const init = buildInit(machineAt(22), settings);
    const { reply, code } = await run(encodeInit(init));
    expect(code).toBe(0);
    expect(reply.stderr).toBe("");
    const { agentKey, warnings } = await verify(
      { reply, init },
      { acceptFirstGenerationAgents: false },
      never(),
    );
    expect(warnings).toEqual([]);
    expect(Buffer.from(agentKey).toString("base64url")).toBe(await held());
    expect((await stat(`${agent}.key`)).mode & 0o777).toBe(0o600);
  });

  test("echoes fields that it does not know", async () => {
    const unknown = Buffer.from([0x7a, 2, 1, 2]);
    const input = Buffer.concat([encodeInit(buildInit(machineAt(22), settings)), unknown]);
    expect(Buffer.from((await run(input)).reply.bytes).includes(input)).toBe(true);
  });

  test("stays behind until a later one replaces its key, or the key is removed", async () => {
    const input = encodeInit(buildInit(machineAt(22), settings));
    await run(input);
    const [first] = processesOf(agent);
    expect(first).toBeDefined();
    await run(input);
    await waitFor("only the later one is left", () => {
      const running = processesOf(agent);
      return running.length === 1 && running[0] !== first;
    });
    await rm(`${agent}.key`);
    await waitFor("it ends with its key", () => processesOf(agent).length === 0);
  });

  test.each([
    ["nothing", Buffer.alloc(0), /no provider/],
    ["text", Buffer.from("GET / HTTP/1.1\r\n\r\n"), /no TakeoverInit/],
    ["a message that is cut off", Buffer.from([0x0a, 200, 1, 65]), /no TakeoverInit/],
    ["more than it bears", Buffer.alloc(400 * 1024, 65), /more than/],
  ])("answers %s with an error that becomes the attempt's cause", async (_name, input, cause) => {
    const { reply, code } = await run(input);
    expect(code).toBe(0);
    const init = buildInit(machineAt(22), settings);
    const failure = await failureOf(
      verify({ reply, init }, { acceptFirstGenerationAgents: false }, never()),
    );
    expect(failure.code).toBe("TAKEOVER_VERIFY_AGENT_ERROR");
    expect(failure.message).toMatch(cause);
    expect(processesOf(agent)).toEqual([]);
  });

  test("exits 1 and says why where it cannot keep a key", async () => {
    await rm(folder, { recursive: true });
    const { code, reply } = await run(encodeInit(buildInit(machineAt(22), settings)));
    expect(code).toBe(1);
    expect(reply.stderr).not.toBe("");
  });
});
