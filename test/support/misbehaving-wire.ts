import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import type { Random } from "../chaos/random.js";
import type { WireKind } from "./misbehaviour.js";

/** A flood is so many bytes, so often: in one process the other peers must live, too. */
const FLOOD_BYTES = 16 * 1024;
const FLOOD_EVERY_MS = 10;
const DRIP_EVERY_MS = 20;

/** An accepted socket for an SSH server to speak on, which goes wrong from the moment that it is told to. */
export class MisbehavingWire extends Duplex {
  readonly #socket: Socket;
  readonly #random: Random;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #dripping: Buffer[] = [];
  #kind: WireKind | undefined;
  #bytes = { in: 0, out: 0 };
  readonly #triggers: { way: "in" | "out"; after: number; act(): void }[] = [];

  constructor(socket: Socket, random: Random) {
    super({ allowHalfOpen: true });
    this.#socket = socket;
    this.#random = random;
    socket.on("data", (chunk: Buffer) => this.#arrived(chunk));
    socket.on("end", () => this.push(null));
    socket.on("error", () => {}); // "close" follows.
    socket.on("close", () => this.destroy());
  }

  /** Calls back when so many bytes have passed. */
  after(way: "in" | "out", bytes: number, act: () => void): void {
    this.#triggers.push({ way, after: bytes, act });
  }

  goWrong(kind: WireKind): void {
    if (this.destroyed) {
      return; // The client has gone before it came to this.
    }
    this.#kind = kind;
    switch (kind) {
      case "reset":
        this.#socket.resetAndDestroy();
        break;
      case "end":
        this.#socket.end();
        break;
      case "garbage":
        this.#send(this.#randomBytes(1 + this.#random.below(4000)));
        break;
      case "flood":
        this.#every(FLOOD_EVERY_MS, () => {
          // A peer that reads nothing is not sent more than the system takes.
          if (this.#socket.writableLength < FLOOD_BYTES) {
            this.#send(this.#randomBytes(FLOOD_BYTES));
          }
        });
        break;
      case "drip":
        this.#every(DRIP_EVERY_MS, () => {
          const [first] = this.#dripping;
          if (first !== undefined) {
            this.#send(first.subarray(0, 1));
            this.#dripping.splice(0, 1, ...(first.length > 1 ? [first.subarray(1)] : []));
          }
        });
        break;
      case "stall":
        break; // What is written and what arrives is dropped from now on.
    }
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    const left = this.#count("out", chunk, (piece) => this.#pass(piece));
    this.#pass(left);
    done();
  }

  override _final(done: () => void): void {
    if (this.#kind !== "stall" && this.#kind !== "flood") {
      this.#socket.end();
    }
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    for (const timer of this.#timers) {
      clearInterval(timer);
    }
    this.#socket.destroy();
    done(error);
  }

  #arrived(chunk: Buffer): void {
    const take = (piece: Buffer): void => {
      if (this.#kind !== "stall" && piece.length > 0 && !this.push(piece)) {
        this.#socket.pause();
      }
    };
    take(this.#count("in", chunk, take));
  }

  /** Hands over what comes before a trigger, pulls it, and gives the rest. */
  #count(way: "in" | "out", chunk: Buffer, pass: (piece: Buffer) => void): Buffer {
    const before = this.#bytes[way];
    this.#bytes[way] += chunk.length;
    const due = this.#triggers.findIndex(
      (trigger) => trigger.way === way && trigger.after < this.#bytes[way],
    );
    const [trigger] = due < 0 ? [] : this.#triggers.splice(due, 1);
    if (trigger === undefined) {
      return chunk;
    }
    const at = Math.max(0, trigger.after - before);
    pass(chunk.subarray(0, at));
    trigger.act();
    return chunk.subarray(at);
  }

  #pass(piece: Buffer): void {
    if (piece.length === 0 || this.#kind === "stall" || this.#kind === "flood") {
      return;
    }
    if (this.#kind === "drip") {
      this.#dripping.push(Buffer.from(piece));
    } else {
      this.#send(piece);
    }
  }

  #send(bytes: Buffer): void {
    if (this.#socket.writable) {
      this.#socket.write(bytes);
    }
  }

  #every(ms: number, act: () => void): void {
    this.#timers.push(setInterval(act, ms));
  }

  #randomBytes(length: number): Buffer {
    const piece = Buffer.from(Array.from({ length: 64 }, () => this.#random.below(256)));
    return Buffer.alloc(length, piece);
  }
}
