import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { Client, ClientChannel } from "ssh2";
import { printable } from "../errors.js";
import type { HostKeyDecision } from "../telemetry/labels.js";
import { closeUnstarted, listenToChannels, longestMessage } from "./client-channels.js";
import {
  ChannelRefused,
  type Connection,
  ConnectionLost,
  type OutputSinks,
  type RunningCommand,
  type Sftp,
  SftpUnusable,
} from "./connection.js";
import { asDuration, type Limit, settledWithin, within } from "./deadline.js";
import type { Keepalive } from "./dial-options.js";
import { RemoteCommand } from "./remote-command.js";
import { SftpChannel } from "./sftp-channel.js";

/** How long a polite good-bye may take, in milliseconds. */
const GOODBYE_MS = 1000;

/** How often a refused channel is asked for again, and after what pause in milliseconds. */
const MOST_REFUSALS = 5;
const REFUSAL_PAUSE_MS = 100;

/** ssh2 cuts what it writes to what the server takes at once; to one that takes nothing it writes for ever. */
const SHORTEST_MESSAGE = 256;

/** A call of ssh2 that opens a channel. */
type Ask = (callback: (error: Error | undefined, channel: ClientChannel) => void) => void;

/** The Connection over an ssh2 client that is logged in. */
export class SshConnection implements Connection {
  readonly hostKey: string;
  readonly hostKeyDecision: HostKeyDecision;
  readonly #client: Client;
  readonly #socket: Socket;
  readonly #closed: Promise<void>;
  readonly #silence: NodeJS.Timeout;
  #firstError: Error | undefined;
  #lost: ConnectionLost | undefined;
  readonly #onLost = new Set<(error: ConnectionLost) => void>();

  constructor(
    client: Client,
    socket: Socket,
    hostKey: string,
    decision: HostKeyDecision,
    keepalive: Keepalive,
  ) {
    this.#client = client;
    this.#socket = socket;
    this.hostKey = hostKey;
    this.hostKeyDecision = decision;
    // All of them are the end, though ssh2 itself only says good-bye and waits for the server to hang up.
    client.on("error", (error) => {
      this.#firstError ??= error;
      this.#lose();
    });
    listenToChannels(client);
    this.#silence = watchForSilence(socket, keepalive, () => {
      this.#firstError ??= new Error(
        `nothing came for ${asDuration(keepalive.intervalMs * (keepalive.count + 1))}`,
      );
      this.#lose("the SSH connection was lost: the machine answers no keepalive");
    });
    // A peer that says its end but reads no more would keep the socket half open.
    client.on("end", () => this.#lose());
    this.#closed = new Promise((resolve) => {
      client.on("close", () => {
        this.#lose();
        resolve();
      });
    });
  }

  get lost(): ConnectionLost | undefined {
    return this.#lost;
  }

  exec(
    command: string,
    sinks: OutputSinks,
    limit: Limit,
    { once = false } = {},
  ): Promise<RunningCommand> {
    return this.#open(
      limit,
      (callback) => this.#client.exec(command, callback),
      (channel) => new RemoteCommand(channel, sinks, () => this.#lost),
      once ? 0 : MOST_REFUSALS,
    );
  }

  async openSftp(limit: Limit): Promise<Sftp> {
    const sftp = await this.#open(
      limit,
      (callback) => this.#client.subsys("sftp", callback),
      (channel) => new SftpChannel(channel, () => this.#lost),
    ).catch((error: unknown) => {
      if (error instanceof ChannelRefused && /subsystem/i.test(error.message)) {
        throw new SftpUnusable("the server has no SFTP subsystem");
      }
      throw error;
    });
    try {
      await within(limit, sftp.ready);
      return sftp;
    } catch (error) {
      await sftp.end();
      throw error;
    }
  }

  async close(): Promise<void> {
    if (this.#lost === undefined) {
      this.#client.end();
      await settledWithin(GOODBYE_MS, this.#closed);
    }
    this.destroy();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /**
   * Asks for a channel, and again where the server has none free: sshd frees one that was closed only after it
   * has read on, and refuses what it reads then, which is the next opening where MaxSessions is 1.
   */
  async #open<T>(
    limit: Limit,
    ask: Ask,
    wrap: (channel: ClientChannel) => T,
    mostRefusals = MOST_REFUSALS,
  ): Promise<T> {
    for (let refusals = 1; ; refusals++) {
      try {
        return await this.#openOnce(limit, ask, wrap);
      } catch (error) {
        const busy = error instanceof ChannelRefused && /channel open failure/i.test(error.message);
        if (!busy || refusals > mostRefusals) {
          throw error;
        }
        await within(limit, delay(REFUSAL_PAUSE_MS));
      }
    }
  }

  /**
   * `wrap` is called at once when the channel opens: several of the server's messages may be in one packet, and
   * a listener added after an await would miss the end of a short command.
   */
  #openOnce<T>(limit: Limit, ask: Ask, wrap: (channel: ClientChannel) => T): Promise<T> {
    let wanted = true;
    let forget = (): void => {};
    const opened = new Promise<T>((resolve, reject) => {
      if (this.#lost !== undefined) {
        reject(this.#lost);
        return;
      }
      this.#onLost.add(reject);
      forget = () => this.#onLost.delete(reject);
      try {
        ask((error, channel) => {
          if (error) {
            closeUnstarted(this.#client);
            reject(this.#lost ?? new ChannelRefused(printable(error.message)));
          } else if (longestMessage(channel) < SHORTEST_MESSAGE) {
            discard(channel);
            reject(
              new ChannelRefused(`it takes messages of ${longestMessage(channel)} bytes at most`),
            );
          } else if (wanted) {
            resolve(wrap(channel));
          } else {
            discard(channel);
          }
        });
      } catch (error) {
        // ssh2 throws where the socket is no longer writable.
        reject(this.#lost ?? new ConnectionLost("the SSH connection is closed", { cause: error }));
      }
    });
    return within(limit, opened).finally(() => {
      wanted = false;
      forget();
    });
  }

  #lose(message = "the SSH connection was lost"): void {
    if (this.#lost !== undefined) {
      return;
    }
    clearInterval(this.#silence);
    const cause = this.#firstError;
    this.#lost = new ConnectionLost(message, cause === undefined ? {} : { cause });
    this.#socket.destroy();
    for (const tell of this.#onLost) {
      tell(this.#lost);
    }
    this.#onLost.clear();
  }
}

/**
 * Calls `dead` when nothing came for as long as `keepalive` bears. ssh2 asks, but its own count takes only the
 * answers to its questions for a sign of life: behind the data of an upload over a slow path they come too
 * late, although acknowledgements come all the time.
 */
function watchForSilence(
  socket: Socket,
  { intervalMs, count }: Keepalive,
  dead: () => void,
): NodeJS.Timeout {
  let heard = socket.bytesRead;
  let silent = 0;
  return setInterval(() => {
    silent = socket.bytesRead === heard ? silent + 1 : 0;
    heard = socket.bytesRead;
    if (silent > count) {
      dead();
    }
  }, intervalMs);
}

/** A channel that opened after whoever wanted it had gone. */
function discard(channel: ClientChannel): void {
  channel.on("error", () => {});
  channel.stderr.on("error", () => {});
  channel.resume();
  channel.stderr.resume();
  channel.close();
}
