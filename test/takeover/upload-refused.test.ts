import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { chmod, chown, mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { mayMount, mountTmpfs, remount, unmount } from "../support/mounts.js";
import { failureOf } from "../support/rejection.js";
import { BOTH_WAYS, SshScene } from "../support/ssh-scene.js";
import { describeWithSshd } from "../support/sshd.js";
import { big, expectPlaced, send } from "../support/uploads.js";

const PROTECTED_REGULAR = existsSync("/proc/sys/fs/protected_regular")
  ? readFileSync("/proc/sys/fs/protected_regular", "utf8").trim()
  : "unknown";

describeWithSshd("an upload that a real OpenSSH server or its machine refuses", () => {
  const scene = new SshScene();

  it("says at once that root may not log in, as cloud images have it", async () => {
    const say = `echo 'Please login as the user \\"ubuntu\\" rather than the user \\"root\\".';echo;sleep 10;exit 142`;
    await scene.start({ authorize: (line) => `command="${say}" ${line}` });
    const begun = performance.now();
    const failure = await failureOf(send(scene));
    expect(performance.now() - begun).toBeLessThan(5000);
    expect(failure.code).toBe("TAKEOVER_UPLOAD_LOGIN_REFUSED");
    expect(failure.retryClass).toBe("record");
    expect(failure.message).toContain('Please login as the user "ubuntu"');
    expect(failure.message).toContain("--ssh-user");
  });

  it("says that another program runs in place of a shell", async () => {
    await scene.start({ config: ['ForceCommand sh -c "echo Router console; exit 7"'] });
    const failure = await failureOf(send(scene));
    expect(failure.code).toBe("TAKEOVER_UPLOAD_FAILED");
    expect(failure.message).toMatch(
      /something else, with exit code 7: is there a forced command.*Router console/,
    );
  });

  it("refuses an executable of another architecture before sending it", async () => {
    await scene.start({}, () => {
      const elf = Buffer.alloc(4096);
      elf.write("\x7fELF\x02\x01\x01", "latin1");
      elf.writeUInt16LE(process.arch === "s390x" ? 62 : 22, 18);
      return elf;
    });
    const failure = await failureOf(send(scene));
    expect(failure.code).toBe("TAKEOVER_UPLOAD_WRONG_ARCHITECTURE");
    expect(failure.message).toMatch(/the executable is for \w+, the machine is \w+/);
    expect(existsSync(scene.bench.target)).toBe(false);
  });

  it("says that the target is a directory, and puts nothing into it", async () => {
    await scene.start();
    await mkdir(scene.bench.target, { recursive: true });
    const failure = await failureOf(send(scene));
    expect(failure.message).toBe(`${scene.bench.target} cannot be written: it is a directory`);
    expect(await readdir(scene.bench.target)).toEqual([]);
  });

  it.each(BOTH_WAYS)("says that a part of the path is a file: %s", async (_how, options) => {
    await scene.start(options);
    await writeFile(join(scene.bench.folder, "file"), "");
    const targetPath = join(scene.bench.folder, "file", "agent");
    const failure = await failureOf(send(scene, { targetPath }));
    expect(failure.code).toBe("TAKEOVER_UPLOAD_FAILED");
    expect(failure.message).toContain("a part of the path is not a directory");
  });

  it.skipIf(!mayMount()).each(BOTH_WAYS)(
    "says that the disk is full, and by how much, and leaves nothing: %s",
    async (_how, options) => {
      await scene.start(options, () => big(4));
      const disk = dirname(scene.bench.target);
      mountTmpfs(disk, "size=1m");
      scene.afterwards(() => unmount(disk));
      const failure = await failureOf(send(scene));
      expect(failure.code).toBe("TAKEOVER_UPLOAD_FAILED");
      expect(failure.message).toMatch(/the disk is full \(\d+ KiB free, 4096 KiB needed\)/);
      expect(await readdir(disk)).toEqual([]);
    },
  );

  it.skipIf(!mayMount())("says that the target is busy, where something is mounted", async () => {
    await scene.start();
    const { target } = scene.bench;
    await mkdir(dirname(target));
    await writeFile(target, "");
    execFileSync("mount", ["--bind", target, target], { stdio: "ignore" });
    scene.afterwards(() => unmount(target));
    const failure = await failureOf(send(scene));
    expect(failure.code).toBe("TAKEOVER_UPLOAD_FAILED");
    expect(failure.message).toContain("the target is busy");
    expect(await readdir(dirname(target))).toEqual(["agent"]);
  });

  it.skipIf(!mayMount())("says that the file system is read-only", async () => {
    await scene.start();
    const disk = dirname(scene.bench.target);
    mountTmpfs(disk, "size=1m");
    scene.afterwards(() => unmount(disk));
    remount(disk, "ro");
    expect((await failureOf(send(scene))).message).toContain("the file system is read-only");
  });

  // The kernel refuses root to create what is there already and another user's (fs.protected_regular): only where
  // that is on does this show anything.
  it.skipIf(process.getuid?.() !== 0).each(BOTH_WAYS)(
    `is not kept from a shared folder by a name that another user took (fs.protected_regular is ${PROTECTED_REGULAR}): %s`,
    async (_how, options) => {
      await scene.start(options);
      const folder = dirname(scene.bench.target);
      await mkdir(folder);
      await chmod(folder, 0o1777);
      await writeFile(scene.bench.target, "planted");
      await chown(scene.bench.target, 65_534, 65_534);
      expect((await send(scene)).result).toBe("sent");
      await expectPlaced(scene);
      expect((await stat(scene.bench.target)).uid).toBe(0);
    },
  );

  it.skipIf(process.getuid?.() === 0)("says that there is no permission", async () => {
    await scene.start();
    const failure = await failureOf(send(scene, { targetPath: "/agent-of-takeover-tests" }));
    expect(failure.message).toContain("no permission");
  });
});
