import { connect, type Socket } from "node:net";
import { type FailureCode, TakeoverError } from "../errors.js";
import { asDuration, within } from "./deadline.js";

export interface TcpTarget {
  /** An IP literal: Node gives each address of a name only 250 ms, and names are not ours to resolve. */
  readonly address: string;
  readonly port: number;
}

/** `[::1]:22`, `192.0.2.1:22`. */
export function showTarget({ address, port }: TcpTarget): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

const CODES: Readonly<Record<string, FailureCode>> = {
  ECONNREFUSED: "TAKEOVER_DIAL_REFUSED",
  ETIMEDOUT: "TAKEOVER_DIAL_TIMEOUT",
  ECONNRESET: "TAKEOVER_DIAL_CLOSED",
};

const SAID: Partial<Record<FailureCode, string>> = {
  TAKEOVER_DIAL_REFUSED: "refused the connection: no SSH server listens there yet",
  TAKEOVER_DIAL_TIMEOUT: "did not answer",
  TAKEOVER_DIAL_CLOSED: "reset the connection",
};

/**
 * Opens a TCP connection. `timeoutMs` is `--agent-ssh-connect-timeout`.
 *
 * @throws TakeoverError TAKEOVER_DIAL_REFUSED, _TIMEOUT, _CLOSED, or _UNREACHABLE for any other trouble on the way
 */
export async function connectTcp(
  target: TcpTarget,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Socket> {
  signal.throwIfAborted();
  const socket = connect({ host: target.address, port: target.port, noDelay: true });
  const connected = new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    // Stays for the socket's whole life: a reset may come at any time, also after the end.
    socket.on("error", (error) => reject(asFailure(target, error)));
  });
  try {
    await within(
      {
        ms: timeoutMs,
        signal,
        late: () =>
          new TakeoverError(
            "TAKEOVER_DIAL_TIMEOUT",
            `${showTarget(target)} did not answer within --agent-ssh-connect-timeout ${asDuration(timeoutMs)}`,
          ),
      },
      connected,
    );
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

function asFailure(target: TcpTarget, error: NodeJS.ErrnoException): TakeoverError {
  const code = CODES[error.code ?? ""] ?? "TAKEOVER_DIAL_UNREACHABLE";
  return new TakeoverError(
    code,
    `${showTarget(target)} ${SAID[code] ?? "cannot be reached from here"}`,
    { cause: error },
  );
}
