import type { Socket } from "node:net";
import {
  type AnyAuthMethod,
  type CipherAlgorithm,
  Client,
  type ServerHostKeyAlgorithm,
} from "ssh2";
import { type FailureCode, printable, TakeoverError } from "../errors.js";
import type { HostKeyDecision } from "../telemetry/labels.js";
import type { Connection } from "./connection.js";
import { asDuration, type Limit, within } from "./deadline.js";
import type { DialOptions } from "./dial-options.js";
import {
  describeExpected,
  type ExpectedHostKey,
  fingerprint,
  type HostKey,
  hostKeyAlgorithms,
  hostKeyFromBlob,
  hostKeyLine,
  judgeHostKey,
  parseHostKey,
} from "./host-key.js";
import { loginKeys } from "./login-keys.js";
import { SshConnection } from "./ssh-connection.js";

/** How much of what the peer says before or instead of its identification is kept, in bytes. */
const LONGEST_SAYING = 512;

/** AES-GCM first: half the work of encryption plus MAC, on any processor with AES instructions. */
const CIPHERS: CipherAlgorithm[] = [
  "aes128-gcm@openssh.com",
  "aes256-gcm@openssh.com",
  "aes128-ctr",
  "aes192-ctr",
  "aes256-ctr",
  "chacha20-poly1305@openssh.com",
];

/** ssh2's word for "nothing more to try", which its types leave out. */
const NO_MORE = false as unknown as AnyAuthMethod;

type Stage = "identification" | "key exchange" | "authentication";

/**
 * Identification, key exchange and authentication on an open socket. The socket is the connection's from
 * here on, and is destroyed where this rejects.
 *
 * @throws TakeoverError of the step `dial`
 */
export async function handshake(
  socket: Socket,
  options: DialOptions,
  wanted: ExpectedHostKey | null,
  signal: AbortSignal,
): Promise<Connection> {
  const attempt = new Handshake(socket, options, wanted);
  const limit: Limit = {
    ms: options.handshakeTimeoutMs,
    signal,
    late: () => attempt.late(),
  };
  try {
    return await within(limit, attempt.done);
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

class Handshake {
  readonly done: Promise<Connection>;
  readonly #options: DialOptions;
  readonly #wanted: ExpectedHostKey | null;
  readonly #client = new Client();
  #stage: Stage = "identification";
  #shown: HostKey | null = null;
  #decision: HostKeyDecision = "new";
  /** What the peer said before its identification: ssh2 drops it, and MaxStartups speaks there. */
  #saying = Buffer.alloc(0);
  #banner = "";
  #methodsLeft: readonly string[] = [];
  /** The first thing that went wrong; a failing connection reports two or three. */
  #cause: TakeoverError | undefined;

  constructor(socket: Socket, options: DialOptions, wanted: ExpectedHostKey | null) {
    this.#options = options;
    this.#wanted = wanted;
    this.done = new Promise((resolve, reject) => {
      const fail = (error: TakeoverError): void => {
        this.#cause ??= error;
        reject(this.#cause);
      };
      // Stays for the client's whole life: one timeout emits two errors, and an unheard one ends the process.
      this.#client.on("error", (error) => fail(this.#asFailure(error)));
      // A server that hangs up politely after its identification emits no error at all, only this.
      this.#client.on("close", () => fail(this.#closed()));
      this.#client.on("banner", (text) => {
        this.#banner ||= printable(text, LONGEST_SAYING);
      });
      this.#client.on("handshake", () => {
        this.#stage = "authentication";
      });
      this.#client.on("ready", () => {
        if (this.#shown === null) {
          fail(this.#failure("TAKEOVER_DIAL_HANDSHAKE_FAILED", "the server showed no host key"));
          return;
        }
        resolve(
          new SshConnection(
            this.#client,
            socket,
            hostKeyLine(this.#shown),
            this.#decision,
            options.keepalive,
          ),
        );
      });
      this.#start(socket);
      this.#listenForSaying(socket);
    });
    // Whoever gave up on the handshake does not hear its end.
    this.done.catch(() => {});
  }

  late(): TakeoverError {
    const { handshakeTimeoutMs } = this.#options;
    return this.#failure(
      "TAKEOVER_DIAL_TIMEOUT",
      `no end of ${this.#stage} within --ssh-handshake-timeout ${asDuration(handshakeTimeoutMs)}`,
    );
  }

  #start(socket: Socket): void {
    const { user, key, keepalive } = this.#options;
    const keys = loginKeys(key);
    this.#client.connect({
      sock: socket,
      username: user,
      // Ours covers the whole handshake and names the stage.
      readyTimeout: 0,
      keepaliveInterval: keepalive.intervalMs,
      // Whether the peer is dead is for SshConnection to say.
      keepaliveCountMax: Number.MAX_SAFE_INTEGER,
      algorithms: {
        // The list for key exchange stays ssh2's own, with its strict-kex marker.
        cipher: CIPHERS,
        serverHostKey: hostKeyAlgorithms(this.#wanted) as ServerHostKeyAlgorithm[],
      },
      hostVerifier: (blob: Buffer) => this.#verify(blob),
      authHandler: (methodsLeft, _partial, answer) => {
        this.#methodsLeft = methodsLeft ?? this.#methodsLeft;
        const next = keys.shift();
        // Only the key: "none" would cost a round trip, and passwords we have none.
        answer(next === undefined ? NO_MORE : { type: "publickey", username: user, key: next });
      },
    });
  }

  /** After `connect`, which has paused the socket: a listener added before would set it flowing too early. */
  #listenForSaying(socket: Socket): void {
    const listen = (chunk: Buffer): void => {
      this.#saying = Buffer.concat([this.#saying, chunk.subarray(0, LONGEST_SAYING)]);
      const identification = this.#saying.indexOf("SSH-");
      if (identification >= 0) {
        this.#saying = this.#saying.subarray(0, identification);
        this.#stage = this.#stage === "identification" ? "key exchange" : this.#stage;
      }
      if (identification >= 0 || this.#saying.length >= LONGEST_SAYING) {
        socket.removeListener("data", listen);
      }
    };
    socket.on("data", listen);
  }

  /** Called again at each re-keying, when the same key must be shown. */
  #verify(blob: Buffer): boolean {
    const shown = hostKeyFromBlob(Buffer.from(blob));
    try {
      if (shown === null || parseHostKey(hostKeyLine(shown)) === null) {
        throw this.#failure("TAKEOVER_DIAL_HANDSHAKE_FAILED", "the host key cannot be read");
      }
      if (this.#shown !== null && !this.#shown.blob.equals(shown.blob)) {
        throw this.#failure(
          "TAKEOVER_DIAL_HOST_KEY_CHANGED",
          `the host key changed within the connection, from ${fingerprint(this.#shown)} to ${fingerprint(shown)}`,
        );
      }
      this.#decision = judgeHostKey(shown, this.#wanted, this.#options.hostKey.policy);
      this.#shown = shown;
      return true;
    } catch (error) {
      if (error instanceof TakeoverError) {
        this.#cause ??= error;
      }
      return false;
    }
  }

  #asFailure(error: Error & { level?: string; code?: unknown }): TakeoverError {
    if (error.level === "client-authentication") {
      return this.#refusedLogin(error);
    }
    if (error.level === "client-socket" || error.message === "Connection lost before handshake") {
      return this.#closed(error.level === "client-socket" ? error : undefined);
    }
    if (/no matching host key/.test(error.message) && this.#wanted !== null) {
      return this.#failure(
        "TAKEOVER_DIAL_HOST_KEY_CHANGED",
        `the machine has no host key of the expected type any more: ${describeExpected(this.#wanted)}`,
      );
    }
    if (typeof error.code === "number" && error.level === undefined) {
      // A disconnect message: the server's own words.
      const said = `the server ended ${this.#stage}, saying "${printable(error.message, LONGEST_SAYING)}"`;
      return /auth/i.test(error.message) && this.#stage === "authentication"
        ? this.#failure("TAKEOVER_DIAL_AUTH_FAILED", said)
        : this.#failure("TAKEOVER_DIAL_CLOSED", said);
    }
    return this.#failure("TAKEOVER_DIAL_HANDSHAKE_FAILED", `${this.#stage} failed`, error);
  }

  #refusedLogin(cause: Error): TakeoverError {
    const { user, key } = this.#options;
    const type = key.publicLine.split(" ")[0] ?? "";
    const offered = this.#methodsLeft.length > 0 ? this.#methodsLeft.join(", ") : "nothing";
    return this.#failure(
      "TAKEOVER_DIAL_AUTH_FAILED",
      `the server does not accept the key (${type}) for user ${printable(user, 64)}, or not that key type; it would go on with: ${printable(offered, 100)}`,
      cause,
    );
  }

  #closed(cause?: Error): TakeoverError {
    return this.#failure(
      "TAKEOVER_DIAL_CLOSED",
      `the connection was closed during ${this.#stage}`,
      cause,
    );
  }

  #failure(code: FailureCode, what: string, cause?: Error) {
    const said = printable(this.#saying.toString("latin1"), LONGEST_SAYING) || this.#banner;
    return new TakeoverError(
      code,
      said === "" ? what : `${what}; the peer said "${said}"`,
      cause === undefined ? {} : { cause },
    );
  }
}
