import { spawn } from "node:child_process";
import { chmod, copyFile, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import {
  LOGIN_SHELLS,
  onPath,
  SshScene,
  withLoginShell,
  withStartUp,
} from "../support/ssh-scene.js";
import { describeWithSshd, type SshdOptions } from "../support/sshd.js";
import { big, expectPlaced, send } from "../support/uploads.js";

describeWithSshd("an upload to a real OpenSSH server", () => {
  const scene = new SshScene();

  it("makes the folder for its owner alone and puts the file there, executable", async () => {
    await scene.start();
    const result = await send(scene);
    expect(result).toEqual({
      result: "sent",
      bytes: scene.bench.settings(scene.sshd).executable.size,
    });
    await expectPlaced(scene);
    expect((await stat(dirname(scene.bench.target))).mode & 0o777).toBe(0o700);
  });

  it("sends nothing where the file is there already", async () => {
    await scene.start();
    await send(scene);
    expect(await send(scene)).toEqual({ result: "skipped" });
  });

  it.each<[string, (target: string) => Promise<void>]>([
    ["has other content", async (target) => writeFile(target, (await readFile(target)).reverse())],
    ["is cut short", async (target) => writeFile(target, (await readFile(target)).subarray(1))],
    ["is not executable", async (target) => chmod(target, 0o644)],
  ])("sends it again where the file there %s", async (_what, spoil) => {
    await scene.start();
    await send(scene);
    await spoil(scene.bench.target);
    expect((await send(scene)).result).toBe("sent");
    await expectPlaced(scene);
  });

  it("replaces the file while an older agent runs from it", async () => {
    await scene.start();
    await mkdir(dirname(scene.bench.target), { recursive: true });
    await copyFile(onPath("sleep") ?? "/bin/sleep", scene.bench.target);
    const running = spawn(scene.bench.target, ["60"]);
    scene.afterwards(() => running.kill());
    expect((await send(scene)).result).toBe("sent");
    await expectPlaced(scene);
    expect(running.exitCode).toBeNull();
  });

  it.each<[string, SshdOptions]>([
    ["has no SFTP", { sftp: null }],
    ["has no program for SFTP", { sftp: "/nonexistent/sftp-server" }],
    ["prints start-up text", withStartUp("echo Welcome to prod")],
    ["prints start-up text without line end", withStartUp("printf hi")],
    [
      "prints start-up text, SFTP being built in",
      {
        home: { ".bashrc": "echo Welcome to prod\n" },
        sftp: "internal-sftp",
      },
    ],
    ["serves one channel at a time", { config: ["MaxSessions 1"] }],
    ["serves two channels at a time", { config: ["MaxSessions 2"] }],
    ["serves one channel at a time, without SFTP", { config: ["MaxSessions 1"], sftp: null }],
    ["changes keys every megabyte", { config: ["RekeyLimit 1M"] }],
    ["changes keys every megabyte, without SFTP", { config: ["RekeyLimit 1M"], sftp: null }],
  ])("arrives whole where the server %s", async (_what, options) => {
    await scene.start(options, () => big(4));
    expect((await send(scene)).result).toBe("sent");
    await expectPlaced(scene);
    expect((await send(scene)).result).toBe("skipped");
  });

  for (const { name, path } of LOGIN_SHELLS) {
    it.skipIf(path === undefined)(`arrives where the login shell is ${name}`, async () => {
      await scene.start(withLoginShell(path));
      expect((await send(scene)).result).toBe("sent");
      await expectPlaced(scene);
    });
  }

  it("arrives at a path with all that shells give a meaning to", async () => {
    await scene.start();
    const target = join(scene.bench.folder, "it's $HOME", '!! `x` "y" \\z', "agent & co; *");
    for (const sftp of [true, false]) {
      if (!sftp) {
        await scene.start({ sftp: null });
      }
      expect((await send(scene, { targetPath: target })).result).toBe("sent");
      await expectPlaced(scene, target);
      await writeFile(target, "");
    }
  });

  it.each([
    ["has no tool that hashes", ["sh", "wc", "rm", "mv", "chmod", "cat", "mkdir", "uname"]],
    ["hashes by openssl alone", ["sh", "wc", "rm", "mv", "chmod", "cat", "mkdir", "openssl"]],
  ])("is checked where the machine %s", async (_what, tools) => {
    await scene.start();
    const bin = join(scene.bench.folder, "bin");
    await mkdir(bin);
    for (const tool of tools) {
      await writeFile(join(bin, tool), `#!/bin/sh\nexec ${onPath(tool)} "$@"\n`, { mode: 0o755 });
    }
    for (const sftp of [undefined, null]) {
      await scene.start({ env: { PATH: bin }, ...(sftp === null && { sftp }) });
      expect((await send(scene)).result).toBe("sent");
      await expectPlaced(scene);
      await writeFile(scene.bench.target, "");
    }
  });
});
