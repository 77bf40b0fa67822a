import { createRequire } from "node:module";
import type { Random } from "../chaos/random.js";

/** Numbers of messages, RFC 4253 and 4254, that a client has to do something about. */
const KNOWN = [1, 2, 3, 4, 5, 6, 7, 20, 21, 51, 52, 53, 60, 80, 81, 82, 90, 96, 97, 99, 100];
const [OPEN_CONFIRMATION, OPEN_FAILURE, WINDOW_ADJUST, DATA, EXTENDED_DATA, REQUEST] = [
  91, 92, 93, 94, 95, 98,
];
const CHANNEL_MESSAGES = [
  OPEN_CONFIRMATION,
  OPEN_FAILURE,
  WINDOW_ADJUST,
  DATA,
  EXTENDED_DATA,
  96,
  97,
  REQUEST,
  99,
  100,
];
/** Numbers at which programs go wrong. */
const NUMBERS = [0, 1, 2, 255, 32_768, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];

/** The part of ssh2's server side that sends what it is given, whatever it is. There is no public way to it. */
interface Protocol {
  readonly _packetRW: {
    readonly write: {
      readonly allocStart: number;
      alloc(size: number): Buffer;
      finalize(packet: Buffer): Buffer;
    };
  };
  channelData(channel: number, data: Buffer): void;
}
const { sendPacket } = createRequire(import.meta.url)("ssh2/lib/protocol/utils.js") as {
  sendPacket(protocol: Protocol, packet: Buffer): boolean;
};

export const protocolOf = (client: unknown): Protocol =>
  (client as { _protocol: Protocol })._protocol;

/** Sends a payload as one message, encrypted as the connection is by now. */
export function sendMessage(client: unknown, payload: Buffer): void {
  const protocol = protocolOf(client);
  const writer = protocol._packetRW.write;
  const at = writer.allocStart;
  const packet = writer.alloc(payload.length);
  packet.set(payload, at);
  sendPacket(protocol, writer.finalize(packet));
}

/** A few messages that nobody asked for: some well-formed, about channels that exist or do not, some of noise. */
export function oddMessages(random: Random): Buffer[] {
  return Array.from({ length: 1 + random.below(12) }, () => oddMessage(random));
}

function oddMessage(random: Random): Buffer {
  if (random.below(3) === 0) {
    return Buffer.concat([Buffer.from([random.below(256)]), noise(random.below(200), random)]);
  }
  if (random.below(2) === 0) {
    return Buffer.concat([
      Buffer.from([random.pick(KNOWN)]),
      number(random.pick(NUMBERS)),
      text("odd", random),
      noise(random.below(20), random),
    ]);
  }
  const type = random.pick(CHANNEL_MESSAGES);
  // The first channels of a connection, most of the time.
  const channel = random.below(8) === 0 ? random.pick(NUMBERS) : random.below(5);
  return Buffer.concat([Buffer.from([type]), number(channel), bodyOf(type, random)]);
}

function bodyOf(type: number, random: Random): Buffer {
  switch (type) {
    case OPEN_CONFIRMATION:
      return Buffer.concat([1, 2, 3].map(() => number(random.pick(NUMBERS))));
    case OPEN_FAILURE:
      return Buffer.concat([number(random.pick(NUMBERS)), text("no", random), text("", random)]);
    case WINDOW_ADJUST:
      return number(random.pick(NUMBERS));
    case DATA:
      return text("odd data", random);
    case EXTENDED_DATA:
      return Buffer.concat([number(1), text("odd data", random)]);
    case REQUEST:
      return random.below(2) === 0
        ? Buffer.concat([text("exit-status", random), Buffer.from([0]), number(random.below(256))])
        : Buffer.concat([
            text(random.pick(["exit-signal", "keepalive@openssh.com"]), random),
            Buffer.from([random.below(2)]),
            text("KILL", random),
            Buffer.from([0]),
            text("", random),
            text("", random),
          ]);
    default:
      return Buffer.alloc(0);
  }
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** A string with its length, which is wrong at times. */
function text(content: string, random: Random): Buffer {
  const length = random.below(10) === 0 ? random.pick(NUMBERS) : content.length;
  return Buffer.concat([number(length), Buffer.from(content)]);
}

export function noise(length: number, random: Random): Buffer {
  return Buffer.from(Array.from({ length }, () => random.below(256)));
}
