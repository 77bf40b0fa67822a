import type { HostKeyDecision } from "../telemetry/labels.js";
import type { Limit } from "./deadline.js";

/**
 * A logged-in SSH connection to one machine: all that the steps know of SSH.
 *
 * Errors: ConnectionLost from any call once the connection is gone, ChannelRefused where the server
 * declines to open one more channel or to start what was asked for.
 */
export interface Connection {
  /** `<type> <base64>`: the key the machine proved to hold. */
  readonly hostKey: string;
  readonly hostKeyDecision: HostKeyDecision;
  /** Why the connection is gone, once it is. */
  readonly lost: ConnectionLost | undefined;
  /**
   * Starts a command; its output goes to `sinks` until it ends or is closed. A server that has no channel free
   * is asked again for half a second, unless `once` is set.
   */
  exec(
    command: string,
    sinks: OutputSinks,
    limit: Limit,
    options?: { readonly once?: boolean },
  ): Promise<RunningCommand>;
  /** Opens the SFTP subsystem. Rejects with SftpUnusable where the machine has none that answers. */
  openSftp(limit: Limit): Promise<Sftp>;
  /** Says good-bye, and hangs up a second later at the latest. What runs on the machine runs on. Never rejects. */
  close(): Promise<void>;
  /** Hangs up at once. */
  destroy(): void;
}

export interface OutputSinks {
  stdout(chunk: Buffer): void;
  stderr(chunk: Buffer): void;
}

/** How a command ended. `closed`: the server ended the channel and told no exit status. */
export type Ending =
  | { readonly how: "exited"; readonly code: number }
  | { readonly how: "signaled"; readonly signal: string }
  | { readonly how: "closed" }
  | { readonly how: "lost"; readonly error: ConnectionLost };

export interface RunningCommand {
  /**
   * Resolves once the command ended and its last output was delivered. A child that keeps the streams
   * open after the command itself exited delays this by a second at most.
   */
  readonly ended: Promise<Ending>;
  /** Resolves true when the data went out, false when the command ended before taking it. */
  write(data: Buffer): Promise<boolean>;
  /** End of standard input. */
  end(): void;
  /**
   * Lets go of the command. It is not killed, for OpenSSH declines that for root; what it writes from now on
   * it writes to a closed pipe.
   */
  close(): void;
}

/** An open file on the machine: whatever the server named it. */
export type SftpHandle = Buffer;

/** The few requests of SFTP version 3 that an upload needs. Each rejects with SftpStatus where the server declines. */
export interface Sftp {
  /** Creates a file that must not exist yet, for writing. */
  create(path: string, mode: number): Promise<SftpHandle>;
  write(handle: SftpHandle, data: Buffer, offset: number): Promise<void>;
  closeFile(handle: SftpHandle): Promise<void>;
  remove(path: string): Promise<void>;
  /** Ends the subsystem and waits, a second at most, until the server let go of it: it counts against MaxSessions. */
  end(): Promise<void>;
}

/** The connection is gone; the first thing that went wrong with it is the cause. */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
}

/** The server would not open a channel, or would not start what was asked for on it. */
export class ChannelRefused extends Error {
  override readonly name = "ChannelRefused";
}

/** The machine has no SFTP that answers; `said` is the text that came in its place, made printable. */
export class SftpUnusable extends Error {
  override readonly name = "SftpUnusable";
  readonly said: string;

  constructor(message: string, said = "") {
    super(message);
    this.said = said;
  }
}

/** The SFTP server declined a request. `status` is the code of the protocol: 4 is its word for everything. */
export class SftpStatus extends Error {
  override readonly name = "SftpStatus";
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}
