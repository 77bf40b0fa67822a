import type { Socket } from "node:net";
import { Duplex } from "node:stream";

/**
 * A socket whose answers come later: all that is written to it goes out after `ms`, in order and as fast as
 * before, so that a round trip takes so much longer.
 */
export class LateSocket extends Duplex {
  readonly remoteAddress: string | undefined;
  readonly remoteFamily: string | undefined;
  readonly remotePort: number | undefined;
  readonly #socket: Socket;
  readonly #ms: number;

  constructor(socket: Socket, ms: number) {
    super({ allowHalfOpen: true });
    this.#socket = socket;
    this.#ms = ms;
    this.remoteAddress = socket.remoteAddress;
    this.remoteFamily = socket.remoteFamily;
    this.remotePort = socket.remotePort;
    socket.on("data", (chunk: Buffer) => {
      if (!this.push(chunk)) {
        socket.pause();
      }
    });
    socket.on("end", () => this.push(null));
    socket.on("error", (error) => this.destroy(error));
    socket.on("close", () => this.destroy());
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    // Timers of one length fire in the order in which they were set.
    setTimeout(() => {
      if (this.#socket.writable) {
        this.#socket.write(chunk);
      }
    }, this.#ms);
    done();
  }

  override _final(done: () => void): void {
    setTimeout(() => this.#socket.end(), this.#ms);
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }
}
