import { spawn } from "node:child_process";
import { copyFile, mkdir, readFile, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { takeOver } from "../../src/takeover/pipeline.js";
import { shellAgent } from "../support/agents.js";
import { type Dropbear, describeWithDropbear, startDropbear } from "../support/dropbear.js";
import { failureOf } from "../support/rejection.js";
import { onPath } from "../support/ssh-scene.js";
import {
  type AgentMaker,
  type Bench,
  machineAt,
  never,
  recordingContext,
  setUpBench,
} from "../support/takeover-scene.js";
import { tcpProxy } from "../support/tcp-peer.js";
import { namesIn } from "../support/uploads.js";
import { waitFor } from "../support/wait.js";

const BOTH_SHAPES = [
  ["with SFTP", { sftp: true }],
  ["without SFTP", { sftp: false }],
] as const;

describeWithDropbear("a takeover on a real dropbear server", () => {
  let dropbear: Dropbear;
  let bench: Bench;
  const ends: (() => unknown)[] = [];

  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) {
      await end();
    }
  });

  const start = async (shape: { sftp: boolean } = { sftp: true }, agent?: AgentMaker) => {
    bench = await setUpBench(agent);
    ends.push(bench.remove);
    dropbear = await startDropbear(shape);
    ends.push(dropbear.stop);
  };
  const over = (port = dropbear.port, recordedHostKey: string | null = null) => {
    const { context } = recordingContext(bench.settings(dropbear));
    return takeOver(machineAt(port, { sshUser: "root", recordedHostKey }), context, never());
  };
  /** Enough bytes behind the script to fill several windows. */
  const withBallast: AgentMaker = (key) => `${shellAgent(key)}exit 0\n${"#".repeat(3_000_000)}\n`;

  it.each(BOTH_SHAPES)("brings the agent whole and runs it: %s", async (_how, shape) => {
    await start(shape, withBallast);
    const taken = await over();
    await taken.close();
    expect(Buffer.from(taken.agentKey)).toEqual(bench.agentKey);
    expect(taken.hostKey).toBe(dropbear.hostKey);
    const { executable } = bench.settings(dropbear);
    expect((await readFile(bench.target)).equals(await readFile(executable.path))).toBe(true);
    expect((await stat(bench.target)).mode & 0o777).toBe(0o755);
    expect(await namesIn(dirname(bench.target))).toEqual(["agent"]);
    await (await over(dropbear.port, dropbear.hostKey)).close();
  });

  it.each(BOTH_SHAPES)("replaces an older agent while it runs: %s", async (_how, shape) => {
    await start(shape);
    await mkdir(dirname(bench.target), { recursive: true });
    await copyFile(onPath("sleep") ?? "/bin/sleep", bench.target);
    const running = spawn(bench.target, ["60"]);
    ends.push(() => running.kill());
    await (await over()).close();
    expect(running.exitCode).toBeNull();
  });

  it.each(BOTH_SHAPES)("leaves nothing where the connection is cut: %s", async (_how, shape) => {
    await start(shape, () => Buffer.alloc(8_000_000, "agent"));
    const proxy = await tcpProxy(dropbear.port, { delayMs: 5 });
    ends.push(proxy.stop);
    const failed = failureOf(over(proxy.port));
    await waitFor("the upload is under way", () => proxy.clientBytes() > 500_000);
    expect(await namesIn(dirname(bench.target))).toHaveLength(1);
    proxy.reset();
    expect((await failed).code).toBe("TAKEOVER_UPLOAD_CONNECTION_LOST");
    await waitFor(
      "no partial file",
      async () => (await namesIn(dirname(bench.target))).length === 0,
    );
  });

  it("refuses another host key than the one on record", async () => {
    await start();
    const other =
      "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
    const failure = await failureOf(over(dropbear.port, other));
    expect(failure.code).toBe("TAKEOVER_DIAL_HOST_KEY_CHANGED");
  });

  it.each([
    ["exits 3", "exit 3", "TAKEOVER_RUN_AGENT_EXITED", "the agent exited 3"],
    ["is killed", "kill -9 $$", "TAKEOVER_RUN_AGENT_SIGNALED", "killed by SIGKILL"],
  ])("tells that the agent %s", async (_what, script, code, said) => {
    await start({ sftp: true }, () => `#!/bin/sh\n${script}\n`);
    const failure = await failureOf(over());
    expect(failure.code).toBe(code);
    expect(failure.message).toContain(said);
  });

  it("does not wait for a child that keeps the streams, nor ends it", async () => {
    await start({ sftp: true }, (key, folder) =>
      shellAgent(key, { before: `sleep 60 </dev/null & echo $! >${folder}/pid` }),
    );
    const begun = performance.now();
    await (await over()).close();
    expect(performance.now() - begun).toBeLessThan(20_000);
    const child = Number(await readFile(join(bench.folder, "pid"), "utf8"));
    ends.push(() => process.kill(child, "SIGKILL"));
    expect(process.kill(child, 0)).toBe(true);
  });
});
