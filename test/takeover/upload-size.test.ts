import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { Sftp } from "../../src/ssh/connection.js";
import { openConnection } from "../../src/ssh/dial.js";
import { upload } from "../../src/takeover/upload.js";
import { sendBySftp } from "../../src/takeover/upload-transfer.js";
import { agentFile } from "../support/agents.js";
import { dialOptions } from "../support/dialling.js";
import { SshScene } from "../support/ssh-scene.js";
import { describeWithSshd } from "../support/sshd.js";
import { never } from "../support/takeover-scene.js";
import { tcpProxy } from "../support/tcp-peer.js";
import { big, expectPlaced, send } from "../support/uploads.js";
import { waitFor } from "../support/wait.js";

// What takes long is done by `npm run peers` alone.
const full = process.env.npm_lifecycle_event === "peers";
const MEGABYTE = 1024 * 1024;

describe("uploads to servers that acknowledge nothing", () => {
  it.each([
    [1, 2],
    [20, 40],
    [50, 64],
  ])(
    "hold, when there are %d, %d MB in memory, however large the file",
    async (count, megabytes) => {
      const folder = await mkdtemp(join(tmpdir(), "takeover-size-"));
      const executable = await agentFile(join(folder, "agent"), big(4));
      const plan = {
        executable,
        targetPath: "/agent",
        tempPrefix: "/agent.t",
        tempPath: "/agent.t.1",
      };
      const held = new Set<() => void>();
      let bytes = 0;
      let released = false;
      const sftp: Sftp = {
        create: async () => Buffer.from("handle"),
        write: (_handle, data) => {
          bytes += data.length;
          return released ? Promise.resolve() : new Promise((resolve) => held.add(resolve));
        },
        closeFile: async () => {},
        remove: async () => {},
        end: async () => {},
      };
      const uploads = Promise.all(
        Array.from({ length: count }, () => sendBySftp(sftp, plan, 20_000, never())),
      );
      // Here is what would go on: a reading of the file takes some turns of the event loop, these are many.
      await waitFor("the windows are full", () => bytes >= megabytes * MEGABYTE);
      for (let turn = 0; turn < 1000; turn++) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      expect(bytes).toBe(megabytes * MEGABYTE);
      released = true;
      for (const release of held) {
        release();
      }
      await uploads;
      expect(bytes).toBe(count * executable.size);
      await rm(folder, { recursive: true });
    },
  );
});

describe("an upload to a slow server", () => {
  it("may take longer in all than the stall timeout, as long as it gets on", async () => {
    const folder = await mkdtemp(join(tmpdir(), "takeover-slow-"));
    const executable = await agentFile(join(folder, "agent"), big(1));
    const plan = { executable, targetPath: "/a", tempPrefix: "/a.t", tempPath: "/a.t.1" };
    let last = Promise.resolve();
    const sftp: Sftp = {
      create: async () => Buffer.from("handle"),
      write: () => {
        last = last.then(() => delay(25));
        return last;
      },
      closeFile: async () => {},
      remove: async () => {},
      end: async () => {},
    };
    const begun = performance.now();
    await sendBySftp(sftp, plan, 500, never());
    expect(performance.now() - begun).toBeGreaterThan(700);
    await rm(folder, { recursive: true });
  });
});

describeWithSshd("an upload of any size", () => {
  const scene = new SshScene();

  /** Uploads so many megabytes to twenty machines at once; gives the most memory that this process took, in MB. */
  async function peakOf(megabytes: number): Promise<number> {
    const executable = await agentFile(join(scene.bench.folder, "agent.local"), big(megabytes));
    const options = dialOptions(scene.sshd.port, { key: scene.sshd.clientKey });
    const connections = await Promise.all(
      Array.from({ length: 20 }, () => openConnection(options, never())),
    );
    let peak = 0;
    const watch = setInterval(() => {
      peak = Math.max(peak, process.memoryUsage.rss() / MEGABYTE);
    }, 5);
    const folder = dirname(scene.bench.target);
    try {
      await Promise.all(
        connections.map((connection, index) => {
          const targetPath = join(folder, `agent-${index}`);
          const settings = scene.bench.settings(scene.sshd, { executable, targetPath });
          return upload({ connection, machineId: `machine-${index}` }, settings, never());
        }),
      );
    } finally {
      clearInterval(watch);
      await Promise.all(connections.map((connection) => connection.close()));
      await rm(folder, { recursive: true, force: true });
    }
    return peak;
  }

  if (full) {
    it("takes as much memory for 64 MB as for 8 MB, to 20 machines at once", async () => {
      await scene.start({}, () => big(1));
      const small = await peakOf(8);
      const large = await peakOf(64);
      // Measured: 147 and 212 MB, of which much is garbage; files that are held would make it 1,120 MB more.
      expect(large - small).toBeLessThan(130);
    }, 120_000);
  }

  it("arrives whole where the server changes keys every second", async () => {
    const size = full ? 60 : 8;
    await scene.start({ config: ["RekeyLimit default 1s", "LogLevel DEBUG1"] }, () => big(size));
    // Otherwise it would be over within the first second.
    const proxy = await tcpProxy(scene.sshd.port, { delayMs: 50 });
    scene.afterwards(proxy.stop);
    expect((await send(scene, {}, { port: proxy.port })).result).toBe("sent");
    await expectPlaced(scene);
    // Once when the connection begins; in all, 3 times in the short run and 8 in the long one.
    expect(scene.sshd.log().match(/SSH2_MSG_KEXINIT sent/g)?.length).toBeGreaterThan(1);
  }, 60_000);
});
