import { stat } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import {
  ChannelRefused,
  type Connection,
  ConnectionLost,
  type OutputSinks,
  SftpStatus,
  SftpUnusable,
} from "../../src/ssh/connection.js";
import type { Limit } from "../../src/ssh/deadline.js";
import { openConnection } from "../../src/ssh/dial.js";
import type { DialOptions } from "../../src/ssh/dial-options.js";
import { dialOptions } from "../support/dialling.js";
import { failureOf } from "../support/rejection.js";
import { type ScriptedServer, scriptedSshServer } from "../support/scripted-ssh-server.js";
import { withStartUp } from "../support/ssh-scene.js";
import { describeWithSshd, type Sshd, type SshdOptions, startSshd } from "../support/sshd.js";
import { never } from "../support/takeover-scene.js";
import { tcpProxy } from "../support/tcp-peer.js";
import { waitFor } from "../support/wait.js";

const limit = (ms = 5000, signal = never()): Limit => ({
  ms,
  signal,
  late: () => new Error(`late after ${ms}`),
});

function listen(): OutputSinks & { out: string; err: string } {
  const heard = {
    out: "",
    err: "",
    stdout: (chunk: Buffer) => {
      heard.out += chunk.toString();
    },
    stderr: (chunk: Buffer) => {
      heard.err += chunk.toString();
    },
  };
  return heard;
}

describeWithSshd("a connection to a real OpenSSH server", () => {
  let sshd: Sshd;
  let connection: Connection | undefined;
  let stopProxy: (() => Promise<void>) | undefined;

  const start = async (options: SshdOptions = {}) => {
    sshd = await startSshd(options);
  };
  const dial = async (changes: Partial<DialOptions> = {}) => {
    connection = await openConnection(
      dialOptions(sshd.port, { key: sshd.clientKey, ...changes }),
      never(),
    );
    return connection;
  };

  afterEach(async () => {
    connection?.destroy();
    await stopProxy?.();
    stopProxy = undefined;
    await sshd.stop();
  });

  it("runs a command, feeds it, and tells its output and exit code", async () => {
    await start();
    const ssh = await dial();
    const heard = listen();
    const running = await ssh.exec("cat; echo error >&2; exit 3", heard, limit());
    await running.write(Buffer.from("input"));
    running.end();
    expect(await running.ended).toEqual({ how: "exited", code: 3 });
    expect(heard).toMatchObject({ out: "input", err: "error\n" });
  });

  it("tells a death by signal", async () => {
    await start();
    const running = await (await dial()).exec("kill -9 $$", listen(), limit());
    expect(await running.ended).toEqual({ how: "signaled", signal: "SIGKILL" });
  });

  it.each([
    ["both streams", "sleep 30 &"],
    ["standard error alone", "sleep 30 >/dev/null &"],
  ])("does not wait for a daemon that keeps %s", async (_what, daemon) => {
    await start();
    const heard = listen();
    const ssh = await dial();
    const begun = performance.now();
    const running = await ssh.exec(`${daemon} printf reply; exit 0`, heard, limit());
    expect(await running.ended).toEqual({ how: "exited", code: 0 });
    expect(performance.now() - begun).toBeLessThan(2000);
    expect(heard.out).toBe("reply");
  });

  it("does not wait for a daemon that goes on talking", async () => {
    await start();
    const ssh = await dial();
    const begun = performance.now();
    const command = "(while :; do echo x || exit; sleep 0.05; done) & exit 0";
    const running = await ssh.exec(command, listen(), limit());
    expect(await running.ended).toEqual({ how: "exited", code: 0 });
    expect(performance.now() - begun).toBeLessThan(2500);
    running.close();
  });

  it("opens one channel after the other where the server has one", async () => {
    await start({ config: ["MaxSessions 1"] });
    const ssh = await dial();
    for (let index = 0; index < 20; index++) {
      const running = await ssh.exec("exit 0", listen(), limit());
      expect(await running.ended).toEqual({ how: "exited", code: 0 });
    }
  });

  it("takes an early exit for what it is, whatever was still to be written", async () => {
    await start();
    const running = await (await dial()).exec("exit 3", listen(), limit());
    const taken = running.write(Buffer.alloc(20_000_000));
    running.end();
    expect(await running.ended).toEqual({ how: "exited", code: 3 });
    expect(await taken).toBe(false);
  });

  it("drains both streams, however much comes", async () => {
    await start();
    let bytes = 0;
    const count = {
      stdout: () => {},
      stderr: (chunk: Buffer) => {
        bytes += chunk.length;
      },
    };
    const command = "head -c 20000000 /dev/zero >&2; echo done";
    const running = await (await dial()).exec(command, count, limit());
    expect(await running.ended).toEqual({ how: "exited", code: 0 });
    expect(bytes).toBe(20_000_000);
  });

  it("is lost, with no exit, when the server's process for it dies", async () => {
    await start();
    const ssh = await dial();
    const running = await ssh.exec("echo up; sleep 30", listen(), limit());
    for (const pid of sshd.connections()) {
      process.kill(pid, "SIGKILL");
    }
    expect(await running.ended).toMatchObject({ how: "lost", error: expect.any(ConnectionLost) });
    expect(ssh.lost).toBeInstanceOf(ConnectionLost);
    await expect(ssh.exec("true", listen(), limit())).rejects.toBe(ssh.lost);
  });

  it("is lost when keepalives stay unanswered, and says so", async () => {
    await start();
    const proxy = await tcpProxy(sshd.port);
    stopProxy = proxy.stop;
    const ssh = await dial({ port: proxy.port, keepalive: { intervalMs: 100, count: 3 } });
    const running = await ssh.exec("sleep 30", listen(), limit());
    proxy.knobs.stalled = true;
    expect(await running.ended).toMatchObject({
      how: "lost",
      error: { message: "the SSH connection was lost: the machine answers no keepalive" },
    });
  });

  it("takes whatever comes for a sign of life, as questions may be stuck behind an upload", async () => {
    await start();
    const proxy = await tcpProxy(sshd.port);
    stopProxy = proxy.stop;
    const ssh = await dial({ port: proxy.port, keepalive: { intervalMs: 100, count: 3 } });
    const command = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i; sleep 0.1; done; exit 5";
    const running = await ssh.exec(command, listen(), limit());
    proxy.knobs.deaf = true;
    expect(await running.ended).toEqual({ how: "exited", code: 5 });
  });

  it("is not lost while a sound machine says nothing, for it answers the keepalives", async () => {
    await start();
    const ssh = await dial({ keepalive: { intervalMs: 200, count: 3 } });
    const running = await ssh.exec("sleep 2; exit 5", listen(), limit());
    expect(await running.ended).toEqual({ how: "exited", code: 5 });
  });

  it("survives a pause that is shorter than the keepalives bear", async () => {
    await start();
    const ssh = await dial({ keepalive: { intervalMs: 500, count: 3 } });
    const heard = listen();
    const running = await ssh.exec("cat", heard, limit());
    const pids = sshd.connections();
    for (const pid of pids) {
      process.kill(pid, "SIGSTOP");
    }
    const paused = performance.now();
    await waitFor("the pause is over", () => performance.now() - paused > 1000);
    for (const pid of pids) {
      process.kill(pid, "SIGCONT");
    }
    await running.write(Buffer.from("still here"));
    running.end();
    expect(await running.ended).toEqual({ how: "exited", code: 0 });
    expect(heard.out).toBe("still here");
  });

  it("tells a reset", async () => {
    await start();
    const proxy = await tcpProxy(sshd.port);
    stopProxy = proxy.stop;
    const ssh = await dial({ port: proxy.port });
    const running = await ssh.exec("sleep 30", listen(), limit());
    proxy.reset();
    expect(await running.ended).toMatchObject({ how: "lost" });
  });

  it("ends the handshake where long pieces vanish on the way", async () => {
    await start();
    const proxy = await tcpProxy(sshd.port, { longestPiece: 200 });
    stopProxy = proxy.stop;
    const failure = await failureOf(dial({ port: proxy.port, handshakeTimeoutMs: 5000 }));
    expect(failure.code).toBe("TAKEOVER_DIAL_TIMEOUT");
    expect(failure.message).toContain("no end of key exchange");
  });

  it("says that a second channel was refused, and opens one once the first is closed", async () => {
    await start({ config: ["MaxSessions 1"] });
    const ssh = await dial();
    const sftp = await ssh.openSftp(limit());
    await expect(ssh.exec("true", listen(), limit())).rejects.toBeInstanceOf(ChannelRefused);
    await sftp.end();
    const running = await ssh.exec("true", listen(), limit());
    expect(await running.ended).toEqual({ how: "exited", code: 0 });
  });

  it("creates files anew, for their owner alone, and never opens one that is there", async () => {
    await start();
    const sftp = await (await dial()).openSftp(limit());
    const path = join(sshd.folder, "file");
    await sftp.closeFile(await sftp.create(path, 0o600));
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    await expect(sftp.create(path, 0o600)).rejects.toBeInstanceOf(SftpStatus);
    await sftp.end();
  });

  it.each<[string, SshdOptions, string | RegExp]>([
    ["there is no subsystem", { sftp: null }, "the server has no SFTP subsystem"],
    ["its program is missing", { sftp: "/nonexistent/sftp-server" }, /ended with exit code 127/],
    [
      "start-up text comes instead",
      withStartUp("echo Welcome to prod"),
      // The text may come in pieces, and its first four bytes are enough to tell.
      /the machine sends text in place of SFTP: "Welc/,
    ],
  ])("says why there is no SFTP where %s, and stays usable", async (_what, options, text) => {
    await start(options);
    const ssh = await dial();
    const refused = await ssh.openSftp(limit()).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(SftpUnusable);
    expect(refused).toMatchObject({ message: expect.stringMatching(text) });
    const running = await ssh.exec("true", listen(), limit());
    expect(await running.ended).toEqual({ how: "exited", code: 0 });
  });
});

describe("a connection to a server that misbehaves", () => {
  let server: ScriptedServer;
  let connection: Connection;

  afterEach(async () => {
    connection.destroy();
    await server.stop();
  });
  const dial = async (script: Parameters<typeof scriptedSshServer>[0]) => {
    server = await scriptedSshServer(script);
    connection = await openConnection(dialOptions(server.port), never());
    return connection;
  };

  it("bounds the opening of a command and of SFTP", async () => {
    const ssh = await dial({ exec: () => true, sftp: "ignored" });
    await expect(ssh.exec("true", listen(), limit(100))).rejects.toThrow("late after 100");
    await expect(ssh.openSftp(limit(100))).rejects.toThrow("late after 100");
  });

  it("bears a silence of 39 s and no longer, unless told otherwise", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    try {
      const ssh = await dial({});
      vi.advanceTimersByTime(39_000);
      expect(ssh.lost).toBeUndefined();
      vi.advanceTimersByTime(11_000); // One interval more, should something have come late.
      expect(ssh.lost).toBeInstanceOf(ConnectionLost);
    } finally {
      vi.useRealTimers();
    }
  });

  it("opens to a server that calls itself OpenSSH 10", async () => {
    const ssh = await dial({ ident: "OpenSSH_10.0p2 Debian-7" });
    const running = await ssh.exec("exit 4", listen(), limit());
    expect(await running.ended).toEqual({ how: "exited", code: 4 });
  });

  it("tells a channel that is closed without exit status from an exit", async () => {
    const ssh = await dial({
      exec: (_command, accept) => {
        const channel = accept();
        channel.write("reply");
        channel.end();
        return true;
      },
    });
    const heard = listen();
    const running = await ssh.exec("true", heard, limit());
    expect(await running.ended).toEqual({ how: "closed" });
    expect(heard.out).toBe("reply");
  });

  it("says that a command was refused", async () => {
    const ssh = await dial({
      exec: (_command, _accept, reject) => {
        reject();
        return true;
      },
    });
    await expect(ssh.exec("true", listen(), limit())).rejects.toBeInstanceOf(ChannelRefused);
  });

  it("aborts a wait with the reason given", async () => {
    const ssh = await dial({ exec: () => true });
    const aborter = new AbortController();
    const reason = new Error("stop");
    const opened = ssh.exec("true", listen(), limit(5000, aborter.signal));
    aborter.abort(reason);
    await expect(opened).rejects.toBe(reason);
  });
});
