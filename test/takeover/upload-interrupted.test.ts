import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { expect, it } from "vitest";
import { agentFile } from "../support/agents.js";
import { failureOf } from "../support/rejection.js";
import { BOTH_WAYS, SshScene } from "../support/ssh-scene.js";
import { describeWithSshd } from "../support/sshd.js";
import { tcpProxy } from "../support/tcp-peer.js";
import { big, expectPlaced, MACHINE_ID, namesIn, send } from "../support/uploads.js";
import { waitFor } from "../support/wait.js";

/** Long enough that a file of 16 MB, 2 MB at a time, is on its way for half a second at least. */
const PATH = { delayMs: 40 };

describeWithSshd("an upload that is disturbed", () => {
  const scene = new SshScene();

  it("fills a long path instead of waiting for each write", async () => {
    await scene.start({}, () => big(8));
    const proxy = await tcpProxy(scene.sshd.port, { delayMs: 50 });
    scene.afterwards(proxy.stop);
    const begun = performance.now();
    expect((await send(scene, {}, { port: proxy.port })).result).toBe("sent");
    // 256 writes of 32 KiB, one per round trip of 100 ms, would take 25 s.
    expect(performance.now() - begun).toBeLessThan(10_000);
    await expectPlaced(scene);
  });

  it.each(BOTH_WAYS)(
    "fails where the local file changed, and leaves the target alone: %s",
    async (_how, options) => {
      await scene.start(options);
      const { executable } = scene.bench.settings(scene.sshd);
      await mkdir(dirname(scene.bench.target), { recursive: true });
      await writeFile(scene.bench.target, "the old agent");
      for (const change of [
        "other",
        "longer than it was ".repeat(1000),
        "x".repeat(executable.size),
      ]) {
        await writeFile(executable.path, change);
        const failure = await failureOf(send(scene));
        expect(failure.code).toBe("TAKEOVER_UPLOAD_FAILED");
        expect(failure.message).toContain("changed since the worker started");
      }
      expect(await readFile(scene.bench.target, "utf8")).toBe("the old agent");
      expect(await readdir(dirname(scene.bench.target))).toEqual(["agent"]);
    },
  );

  it("sweeps what an attempt left that lost its connection, and nobody else's", async () => {
    await scene.start();
    const folder = dirname(scene.bench.target);
    await mkdir(folder, { recursive: true });
    await writeFile(`${scene.bench.target}.takeover-${MACHINE_ID}.0123456789abcdef`, "half");
    const others = `${scene.bench.target}.takeover-another-machine.0123456789abcdef`;
    await writeFile(others, "half");
    await send(scene);
    expect((await readdir(folder)).sort()).toEqual(["agent", others.split("/").at(-1)]);
  });

  it.each(BOTH_WAYS)(
    "ends by its stall timeout when the machine stops taking data: %s",
    async (_how, options) => {
      await scene.start(options, () => big(16));
      const proxy = await tcpProxy(scene.sshd.port, { ...PATH });
      scene.afterwards(proxy.stop);
      const sent = failureOf(send(scene, { uploadStallTimeoutMs: 500 }, { port: proxy.port }));
      await waitFor("the upload is under way", () => proxy.clientBytes() > 1_000_000);
      proxy.knobs.stalled = true;
      const failure = await sent;
      expect(failure.code).toBe("TAKEOVER_UPLOAD_STALLED");
      expect(failure.message).toMatch(
        /\d+ of 16777216 bytes sent: nothing was acknowledged within --upload-stall-timeout 500ms/,
      );
    },
  );

  it.each(
    BOTH_WAYS.flatMap(([how, options]) =>
      (["is cut", "loses its server"] as const).map((what) => ({ how, options, what })),
    ),
  )(
    "leaves nothing on the machine where the connection $what in the middle: $how",
    async ({ options, what }) => {
      await scene.start(options, () => big(16));
      const proxy = await tcpProxy(scene.sshd.port, { ...PATH });
      scene.afterwards(proxy.stop);
      const sent = failureOf(send(scene, {}, { port: proxy.port }));
      await waitFor("the upload is under way", () => proxy.clientBytes() > 2_000_000);
      const folder = dirname(scene.bench.target);
      expect(await namesIn(folder)).toHaveLength(1);
      if (what === "is cut") {
        proxy.reset();
      } else {
        for (const pid of scene.sshd.connections()) {
          process.kill(pid, "SIGKILL");
        }
      }
      expect((await sent).code).toBe("TAKEOVER_UPLOAD_CONNECTION_LOST");
      await waitFor("no partial file", async () => (await namesIn(folder)).length === 0);
    },
  );

  it("leaves what a machine cannot remove itself, having one channel, to its next attempt", async () => {
    await scene.start({ config: ["MaxSessions 1"] }, () => big(16));
    const proxy = await tcpProxy(scene.sshd.port, { ...PATH });
    scene.afterwards(proxy.stop);
    const sent = failureOf(send(scene, {}, { port: proxy.port }));
    await waitFor("the upload is under way", () => proxy.clientBytes() > 2_000_000);
    proxy.reset();
    expect((await sent).code).toBe("TAKEOVER_UPLOAD_CONNECTION_LOST");
    expect((await send(scene)).result).toBe("sent");
    await expectPlaced(scene);
  });

  it.each(BOTH_WAYS)(
    "aborts within a second with the reason given, and leaves nothing: %s",
    async (_how, options) => {
      await scene.start(options, () => big(24));
      const proxy = await tcpProxy(scene.sshd.port, { ...PATH });
      scene.afterwards(proxy.stop);
      const aborter = new AbortController();
      const reason = new Error("stop");
      const sent = send(scene, {}, { port: proxy.port, signal: aborter.signal }).catch(
        (error) => error,
      );
      await waitFor("the upload is under way", () => proxy.clientBytes() > 2_000_000);
      expect(await namesIn(dirname(scene.bench.target))).toHaveLength(1);
      const begun = performance.now();
      aborter.abort(reason);
      expect(await sent).toBe(reason);
      expect(performance.now() - begun).toBeLessThan(1000);
      scene.connection.destroy();
      const folder = dirname(scene.bench.target);
      await waitFor("no partial file", async () => (await namesIn(folder)).length === 0);
    },
  );

  it("hashes what it sends, and not what it hopes to send", async () => {
    await scene.start();
    const { executable } = scene.bench.settings(scene.sshd);
    const wrong = { ...(await agentFile(executable.path, "#!/bin/sh\n")), sha256: "0".repeat(64) };
    const failure = await failureOf(send(scene, { executable: wrong }));
    expect(failure.message).toContain("changed since the worker started");
  });
});
