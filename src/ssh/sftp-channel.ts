import type { ClientChannel } from "ssh2";
import { printable } from "../errors.js";
import { type ConnectionLost, type Sftp, type SftpHandle, SftpUnusable } from "./connection.js";
import { settledWithin } from "./deadline.js";
import {
  CREATE_NEW,
  handleIn,
  PacketReader,
  REPLY,
  REQUEST,
  requestPacket,
  statusOf,
} from "./sftp-packets.js";

/** How long the server may take to let go of the subsystem, in milliseconds. */
const GOODBYE_MS = 1000;

interface Pending {
  resolve(packet: Buffer): void;
  reject(error: Error): void;
}

/**
 * SFTP version 3 (draft-ietf-secsh-filexfer-02) on a channel, as much of it as an upload needs.
 *
 * Why not ssh2's own: where a shell's start-up text comes in SFTP's place it throws from within its packet
 * parser at the second chunk, which ends the whole connection and with it the way out through the shell;
 * and of the text it shows four bytes, as a number.
 */
export class SftpChannel implements Sftp {
  readonly ready: Promise<void>;
  readonly #channel: ClientChannel;
  readonly #closed: Promise<void>;
  readonly #reader = new PacketReader();
  readonly #pending = new Map<number, Pending>();
  #greeted: ((error?: Error) => void) | undefined;
  #nextId = 0;
  #dead: Error | undefined;
  #stderr = "";

  constructor(channel: ClientChannel, connectionLost: () => ConnectionLost | undefined) {
    this.#channel = channel;
    this.ready = new Promise((resolve, reject) => {
      this.#greeted = (error) => (error === undefined ? resolve() : reject(error));
    });
    this.ready.catch(() => {}); // Heard by whoever awaits it; a later end is no news.
    this.#closed = new Promise((resolve) => {
      channel.on("close", () => {
        this.#die(connectionLost() ?? this.#ended());
        resolve();
      });
    });
    channel.on("error", () => {}); // The channel's close tells more.
    channel.stderr.on("error", () => {});
    channel.stderr.on("data", (chunk: Buffer) => {
      this.#stderr = `${this.#stderr}${chunk.toString("latin1")}`.slice(-500);
    });
    channel.on("exit", (code: number | null) => this.#die(this.#ended(code)));
    channel.on("data", (chunk: Buffer) => this.#receive(chunk));
    channel.write(requestPacket(REQUEST.INIT, 3, []));
  }

  async create(path: string, mode: number): Promise<SftpHandle> {
    const reply = await this.#ask(REQUEST.OPEN, [path, CREATE_NEW, { mode }]);
    const handle = handleIn(reply);
    if (handle === undefined) {
      throw statusOf(reply);
    }
    return handle;
  }

  write(handle: SftpHandle, data: Buffer, offset: number): Promise<void> {
    return this.#order(REQUEST.WRITE, [handle, { offset }, data]);
  }

  closeFile(handle: SftpHandle): Promise<void> {
    return this.#order(REQUEST.CLOSE, [handle]);
  }

  remove(path: string): Promise<void> {
    return this.#order(REQUEST.REMOVE, [path]);
  }

  async end(): Promise<void> {
    this.#die(new SftpUnusable("the SFTP channel was ended"));
    // End of input first: sftp-server exits by itself, and the server then closes the channel.
    this.#channel.end();
    await settledWithin(GOODBYE_MS, this.#closed);
    this.#channel.close();
  }

  async #order(type: number, fields: Parameters<typeof requestPacket>[2]): Promise<void> {
    const status = statusOf(await this.#ask(type, fields));
    if (status.status !== 0) {
      throw status;
    }
  }

  #ask(type: number, fields: Parameters<typeof requestPacket>[2]): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      if (this.#dead !== undefined) {
        reject(this.#dead);
        return;
      }
      const id = this.#nextId++;
      this.#pending.set(id, { resolve, reject });
      this.#channel.write(requestPacket(type, id, fields));
    });
  }

  #receive(chunk: Buffer): void {
    if (this.#dead !== undefined) {
      return;
    }
    const packets = this.#reader.read(chunk);
    if (packets === null) {
      this.#die(this.#noSftp());
      return;
    }
    for (const packet of packets) {
      if (this.#greeted !== undefined) {
        if (packet[0] !== REPLY.VERSION) {
          this.#die(this.#noSftp());
          return;
        }
        this.#greeted();
        this.#greeted = undefined;
        continue;
      }
      const id = packet.length >= 5 ? packet.readUInt32BE(1) : -1;
      const pending = this.#pending.get(id);
      this.#pending.delete(id);
      pending?.resolve(packet);
    }
  }

  /** Text where packets should be: a login shell's start-up files print it, or a forced command does. */
  #noSftp(): SftpUnusable {
    const said = printable(this.#reader.sample.toString("latin1"), 300);
    return new SftpUnusable(`the machine sends text in place of SFTP: "${said}"`, said);
  }

  #ended(code?: number | null): SftpUnusable {
    const how = typeof code === "number" ? ` with exit code ${code}` : "";
    const said = printable(this.#stderr, 300);
    return new SftpUnusable(
      `the SFTP subsystem ended${how}${said === "" ? "" : `, saying "${said}"`}`,
      said,
    );
  }

  #die(error: Error): void {
    if (this.#dead !== undefined) {
      return;
    }
    this.#dead = error;
    this.#greeted?.(error);
    this.#greeted = undefined;
    for (const { reject } of this.#pending.values()) {
      reject(error);
    }
    this.#pending.clear();
  }
}
