import type { Client, ClientChannel } from "ssh2";

/**
 * What ssh2 does wrong with channels before it hands them over, or never does. There is no public way to them:
 * the names here are those of 1.17, and each of these has a test that fails without it.
 */
interface ChannelManager {
  readonly _channels: Readonly<Record<string, Partial<ClientChannel> | (() => void)>>;
  update(id: number, channel: ClientChannel): void;
}

function managerOf(client: Client): ChannelManager | undefined {
  return (client as Client & { readonly _chanMgr?: ChannelManager })._chanMgr;
}

/**
 * Nobody else listens to a channel before its first request was answered. A server that ends its output and
 * then sends some ("stream.push() after EOF") would end the process, and with it all other attempts.
 */
export function listenToChannels(client: Client): void {
  const manager = managerOf(client);
  if (manager === undefined) {
    return;
  }
  const { update } = manager;
  manager.update = (id, channel) => {
    channel.on("error", () => {}); // What comes of it tells more.
    channel.stderr.on("error", () => {});
    update.call(manager, id, channel);
  };
}

/**
 * A channel on which the server declined to start anything is forgotten, and stays open: where MaxSessions is 1
 * no other would ever open.
 */
export function closeUnstarted(client: Client): void {
  for (const channel of Object.values(managerOf(client)?._channels ?? {})) {
    if (typeof channel === "object" && channel.subtype === undefined) {
      channel.close?.();
    }
  }
}

/** The longest message that the server takes on this channel, in bytes. */
export function longestMessage(channel: ClientChannel): number {
  const { outgoing } = channel as ClientChannel & {
    readonly outgoing?: { readonly packetSize: number };
  };
  return outgoing?.packetSize ?? Number.POSITIVE_INFINITY;
}
