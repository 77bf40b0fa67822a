import type { ClientChannel } from "ssh2";
import type { ConnectionLost, Ending, OutputSinks, RunningCommand } from "./connection.js";

/**
 * After the exit status: how long to wait for the end of the streams, which a daemon that inherited them
 * never brings. All of it, for the server may send the status before the output: on a loaded machine a
 * silence of 300 ms was seen to cut a reply off. Milliseconds.
 */
const TRAIL_MS = 1000;

/** A command on an ssh2 channel. Made in the very callback that brings the channel, so that nothing is missed. */
export class RemoteCommand implements RunningCommand {
  readonly ended: Promise<Ending>;
  readonly #channel: ClientChannel;
  readonly #writes = new Set<() => void>();
  #over = false;

  constructor(
    channel: ClientChannel,
    sinks: OutputSinks,
    connectionLost: () => ConnectionLost | undefined,
  ) {
    this.#channel = channel;
    this.ended = new Promise((resolve) => {
      let exit: Ending | undefined;
      let trail: NodeJS.Timeout | undefined;
      const finish = (ending: Ending): void => {
        clearTimeout(trail);
        this.#over = true;
        resolve(ending);
        for (const giveUp of this.#writes) {
          giveUp();
        }
        this.#writes.clear();
      };
      const hear = (sink: (chunk: Buffer) => void) => (chunk: Buffer) => {
        if (!this.#over) {
          sink(chunk);
        }
      };
      // Both streams share one window: an unread one would stop the other.
      channel.on(
        "data",
        hear((chunk) => sinks.stdout(chunk)),
      );
      channel.stderr.on(
        "data",
        hear((chunk) => sinks.stderr(chunk)),
      );
      channel.on("error", () => {}); // The channel's close tells more than a write that came too late.
      channel.stderr.on("error", () => {});
      channel.on("exit", (code: number | null, signal?: string) => {
        exit =
          code === null
            ? { how: "signaled", signal: signal ?? "unknown" }
            : { how: "exited", code };
        const ending = exit;
        trail = setTimeout(() => finish(ending), TRAIL_MS);
      });
      channel.on("close", () => {
        const error = connectionLost();
        finish(exit ?? (error === undefined ? { how: "closed" } : { how: "lost", error }));
      });
    });
  }

  write(data: Buffer): Promise<boolean> {
    if (this.#over) {
      return Promise.resolve(false);
    }
    return new Promise((resolve) => {
      const giveUp = (): void => resolve(false);
      this.#writes.add(giveUp);
      // ssh2 never calls back for a channel that closed meanwhile; `finish` does.
      this.#channel.write(data, (error) => {
        this.#writes.delete(giveUp);
        resolve(!error);
      });
    });
  }

  end(): void {
    this.#channel.end();
  }

  close(): void {
    this.#channel.close();
  }
}
