import { EventEmitter } from "node:events";
import { Socket } from "node:net";
import type { Client, ServerChannel } from "ssh2";
import { afterEach, describe, expect, it } from "vitest";
import { ChannelRefused, ConnectionLost, type OutputSinks } from "../../src/ssh/connection.js";
import type { Limit } from "../../src/ssh/deadline.js";
import { openConnection } from "../../src/ssh/dial.js";
import { SshConnection } from "../../src/ssh/ssh-connection.js";
import { dialOptions } from "../support/dialling.js";
import { sendMessage } from "../support/odd-messages.js";
import { runByShell, scriptedSshServer } from "../support/scripted-ssh-server.js";
import { never } from "../support/takeover-scene.js";
import { type ProxyKnobs, tcpProxy } from "../support/tcp-peer.js";

/** Messages of RFC 4254 about the first channel that a client opens. */
const EOF = Buffer.from([96, 0, 0, 0, 0]);
const DATA = Buffer.from([94, 0, 0, 0, 0, 0, 0, 0, 1, 0x78]);
const ERROR_DATA = Buffer.from([95, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x78]);

const deaf: OutputSinks = { stdout: () => {}, stderr: () => {} };
const limit: Limit = { ms: 1000, signal: never(), late: () => new Error("too late") };

describe("a connection to a server that breaks the rules", () => {
  const ends: (() => unknown)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) {
      await end();
    }
  });

  /** Dials a server that does something odd when it is first asked to run something, and runs it a moment later. */
  const dialTo = async (beOdd: (client: unknown, proxy: ProxyKnobs) => void) => {
    let client: unknown;
    let asked = 0;
    const server = await scriptedSshServer({
      connected: (connected) => {
        client = connected;
      },
      exec: (command, accept) => {
        asked += 1;
        if (asked > 1) {
          return false;
        }
        beOdd(client, proxy.knobs);
        setTimeout(() => {
          // There is none where the client has closed it meanwhile.
          const channel = accept() as ServerChannel | undefined;
          if (channel !== undefined) {
            runByShell(command, channel);
          }
        }, 50);
        return true;
      },
    });
    ends.push(server.stop);
    const proxy = await tcpProxy(server.port);
    ends.push(proxy.stop);
    const ssh = await openConnection(dialOptions(proxy.port), never());
    ends.push(() => ssh.destroy());
    return ssh;
  };

  // Nobody listens to a channel of ssh2 before, and an unheard error ends the process.
  it.each([
    ["output", DATA],
    ["error output", ERROR_DATA],
  ])("survives %s after its end, before the command was acknowledged", async (_what, data) => {
    const ssh = await dialTo((client) => {
      sendMessage(client, EOF);
      sendMessage(client, data);
    });
    const running = await ssh.exec("true", deaf, limit).catch(() => undefined);
    await running?.ended;
    const next = await ssh.exec("exit 3", deaf, limit);
    expect(await next.ended).toEqual({ how: "exited", code: 3 });
  });

  it("is lost at once where the server sends what is no message, and does not hang up either", async () => {
    const ssh = await dialTo((client, proxy) => {
      proxy.deaf = true;
      proxy.keepsOpen = true;
      sendMessage(client, Buffer.from([94, 0, 0]));
    });
    await expect(ssh.exec("true", deaf, limit)).rejects.toThrow(ConnectionLost);
    expect(ssh.lost?.cause).toBeInstanceOf(Error);
  });

  it("refuses a channel on which the server takes nothing: writing to it would never end", async () => {
    let client: unknown;
    const server = await scriptedSshServer({
      connected: (connected) => {
        client = connected;
        // In place of ssh2's own confirmation: ours, theirs, their window, and their longest message.
        connected.on("session", () =>
          sendMessage(client, Buffer.from([91, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0])),
        );
      },
    });
    ends.push(server.stop);
    const ssh = await openConnection(dialOptions(server.port), never());
    ends.push(() => ssh.destroy());
    const refused = ssh.exec("cat", deaf, limit);
    await expect(refused).rejects.toThrow(ChannelRefused);
    await expect(refused).rejects.toThrow("messages of 0 bytes");
  });
});

describe("a connection that fails after its login", () => {
  it("is lost once, with the first cause, however many errors ssh2 reports of it", () => {
    const client = new EventEmitter();
    const connection = new SshConnection(client as Client, new Socket(), "", "new", {
      intervalMs: 10_000,
      count: 3,
    });
    client.emit("error", new Error("the first"));
    const { lost } = connection;
    client.emit("error", new Error("the second"));
    client.emit("close");
    client.emit("error", new Error("the third"));
    expect(connection.lost).toBe(lost);
    expect(lost?.cause).toMatchObject({ message: "the first" });
  });
});
