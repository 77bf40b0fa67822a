import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { describe as describeError } from "../../src/errors.js";
import { openConnection } from "../../src/ssh/dial.js";
import { dialOptions } from "../support/dialling.js";
import { failureOf } from "../support/rejection.js";
import { freePort } from "../support/sshd.js";
import { never } from "../support/takeover-scene.js";
import { type TcpPeer, tcpPeer } from "../support/tcp-peer.js";
import { waitFor } from "../support/wait.js";

const IDENT = "SSH-2.0-OpenSSH_9.9\r\n";

describe("dialling a server that misbehaves", () => {
  let peer: TcpPeer | undefined;
  let uncaught: unknown[] = [];
  const note = (error: unknown) => uncaught.push(error);

  afterEach(async () => {
    process.off("uncaughtException", note);
    expect(uncaught).toEqual([]);
    uncaught = [];
    await peer?.stop();
    peer = undefined;
  });

  async function dialPeer(serve: (socket: Socket) => void, handshakeTimeoutMs = 5000) {
    process.on("uncaughtException", note);
    peer = await tcpPeer(serve);
    return failureOf(openConnection(dialOptions(peer.port, { handshakeTimeoutMs }), never()));
  }

  it("ends at once when the server closes politely after its identification", async () => {
    const failure = await dialPeer((socket) => socket.end(IDENT));
    expect(failure.code).toBe("TAKEOVER_DIAL_CLOSED");
    expect(failure.message).toContain("closed during key exchange");
  });

  it("names the deadline and the stage when nothing ever comes, and one failure stays one", async () => {
    const failure = await dialPeer(() => {}, 150);
    expect(failure.code).toBe("TAKEOVER_DIAL_TIMEOUT");
    expect(failure.message).toBe("no end of identification within --ssh-handshake-timeout 150ms");
  });

  it("is not kept waiting by a server that drips lines", async () => {
    const failure = await dialPeer((socket) => {
      const drip = setInterval(() => socket.write("wait\r\n"), 20);
      socket.on("close", () => clearInterval(drip));
    }, 200);
    expect(failure.code).toBe("TAKEOVER_DIAL_TIMEOUT");
    expect(failure.message).toContain('the peer said "wait wait');
  });

  it("names the stage when a server stops answering after its identification", async () => {
    const failure = await dialPeer((socket) => socket.write(IDENT), 150);
    expect(failure.message).toContain("no end of key exchange within --ssh-handshake-timeout");
  });

  it("hangs up on a server that it gave up on", async () => {
    let hungUp = false;
    await dialPeer((socket) => {
      socket.resume();
      socket.once("end", () => {
        hungUp = true;
      });
    }, 150);
    await waitFor("the server hears the end", () => hungUp);
  });

  it("passes on what a busy server says in place of its identification", async () => {
    const failure = await dialPeer((socket) => socket.end("Exceeded MaxStartups\r\n"));
    expect(failure.code).toBe("TAKEOVER_DIAL_CLOSED");
    expect(failure.message).toBe(
      'the connection was closed during identification; the peer said "Exceeded MaxStartups"',
    );
  });

  it("passes on what a server of another protocol says", async () => {
    const failure = await dialPeer((socket) =>
      socket.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
    );
    expect(failure.code).toBe("TAKEOVER_DIAL_CLOSED");
    expect(failure.message).toContain("HTTP/1.1 400 Bad Request");
  });

  it("tells a reset from a refusal", async () => {
    const failure = await dialPeer((socket) => socket.resetAndDestroy());
    expect(failure.code).toBe("TAKEOVER_DIAL_CLOSED");
  });

  it("calls rubbish after the identification a failed handshake", async () => {
    const failure = await dialPeer((socket) => socket.write(`${IDENT}${"x".repeat(5000)}`));
    expect(failure.code).toBe("TAKEOVER_DIAL_HANDSHAKE_FAILED");
    expect(describeError(failure)).toMatch(/^key exchange failed: .+/);
  });

  it("survives rubbish without end in place of an identification", async () => {
    const failure = await dialPeer((socket) => {
      const flood = (): void => {
        while (!socket.destroyed && socket.write(Buffer.alloc(65_536, 0x41)));
      };
      socket.on("drain", flood);
      flood();
    }, 300);
    expect(failure.step).toBe("dial");
    expect(failure.message.length).toBeLessThan(1000);
  });

  it("says so when the connection is refused", async () => {
    const failure = await failureOf(openConnection(dialOptions(await freePort()), never()));
    expect(failure.code).toBe("TAKEOVER_DIAL_REFUSED");
    expect(describeError(failure)).toMatch(
      /^127\.0\.0\.1:\d+ refused the connection.*ECONNREFUSED/,
    );
  });

  it("says so when there is no way to the address", async () => {
    // A limited broadcast address: no TCP connection can ever be opened to it.
    const options = { ...dialOptions(22), address: "255.255.255.255" };
    const failure = await failureOf(openConnection(options, never()));
    expect(failure.code).toBe("TAKEOVER_DIAL_UNREACHABLE");
    expect(describeError(failure)).toMatch(/cannot be reached from here: .+/);
  });

  it("aborts within the handshake, with the reason given", async () => {
    peer = await tcpPeer(() => {});
    const aborter = new AbortController();
    const dialled = openConnection(dialOptions(peer.port), aborter.signal);
    const reason = new Error("stop");
    setTimeout(() => aborter.abort(reason), 50);
    await expect(dialled).rejects.toBe(reason);
  });

  it("does not dial at all once aborted", async () => {
    peer = await tcpPeer(() => {});
    const reason = new Error("stop");
    await expect(openConnection(dialOptions(peer.port), AbortSignal.abort(reason))).rejects.toBe(
      reason,
    );
    expect(peer.accepted()).toBe(0);
  });
});

describe("dialling an address that swallows everything", () => {
  let child: ChildProcess | undefined;
  const sockets: Socket[] = [];

  afterEach(() => {
    for (const socket of sockets) {
      socket.destroy();
    }
    child?.kill("SIGKILL");
  });

  it("gives up at the deadline for TCP, naming it", async () => {
    // A listener that accepts nothing: once its backlog is full, the kernel drops what would connect.
    child = spawn(process.execPath, [
      "-e",
      "const s = require('net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => { console.log(s.address().port); });",
    ]);
    const [line] = await once(child.stdout ?? process.stdin, "data");
    const port = Number(String(line));
    child.kill("SIGSTOP");
    let swallowed = false;
    while (!swallowed) {
      const socket = connect(port, "127.0.0.1");
      socket.on("error", () => {});
      sockets.push(socket);
      swallowed = await new Promise<boolean>((resolve) => {
        socket.once("connect", () => resolve(false));
        setTimeout(() => resolve(true), 300);
      });
      expect(sockets.length).toBeLessThan(20);
    }
    const failure = await failureOf(
      openConnection(dialOptions(port, { connectTimeoutMs: 200 }), never()),
    );
    expect(failure.code).toBe("TAKEOVER_DIAL_TIMEOUT");
    expect(failure.message).toBe(
      `127.0.0.1:${port} did not answer within --agent-ssh-connect-timeout 200ms`,
    );
  });
});
