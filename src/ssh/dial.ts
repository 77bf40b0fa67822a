import type { Connection } from "./connection.js";
import type { DialOptions, Keepalive } from "./dial-options.js";
import { handshake } from "./handshake.js";
import { expectedHostKey } from "./host-key.js";
import { connectTcp } from "./tcp.js";

/** A question every 10 s, and a silence of 40 s is the end: a pause of seconds survives, a dead peer does not. */
const KEEPALIVE: Keepalive = { intervalMs: 10_000, count: 3 };

/**
 * Connects to an SSH server and logs in with the key. No bare probe of the port goes before it: sshd counts
 * those against MaxStartups.
 *
 * @throws TakeoverError of the step `dial`; the signal's reason where it aborts
 */
export async function openConnection(
  options: Omit<DialOptions, "keepalive"> & { readonly keepalive?: Keepalive },
  signal: AbortSignal,
): Promise<Connection> {
  const wanted = expectedHostKey(options.hostKey);
  const socket = await connectTcp(options, options.connectTimeoutMs, signal);
  return handshake(socket, { keepalive: KEEPALIVE, ...options }, wanted, signal);
}
