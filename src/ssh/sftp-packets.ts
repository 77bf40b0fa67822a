import { printable } from "../errors.js";
import { SftpStatus } from "./connection.js";

/** Message types of SFTP version 3, draft-ietf-secsh-filexfer-02, section 3. */
export const REQUEST = { INIT: 1, OPEN: 3, CLOSE: 4, WRITE: 6, REMOVE: 13 } as const;
export const REPLY = { VERSION: 2, STATUS: 101, HANDLE: 102 } as const;

/** Flags of OPEN, section 6.3: write, create, and fail where it exists. */
export const CREATE_NEW = 0x02 | 0x08 | 0x20;

/** What the status codes of section 7 mean, for servers that send no text. */
const STATUS_NAMES: Readonly<Record<number, string>> = {
  1: "End of file",
  2: "No such file",
  3: "Permission denied",
  4: "Failure",
  5: "Bad message",
  8: "Operation unsupported",
};

const ATTRIBUTE_PERMISSIONS = 0x04;

/** No reply to a request of ours comes near this. */
const LONGEST_REPLY = 64 * 1024;
const LONGEST_SAMPLE = 1024;

/** A field: text or bytes with their length, a number, a file offset (uint64), or permissions as attributes. */
export type Field =
  | string
  | Buffer
  | number
  | { readonly offset: number }
  | { readonly mode: number };

/** One request: length, type, id, fields. In INIT the protocol version stands in the id's place. */
export function requestPacket(type: number, id: number, fields: readonly Field[]): Buffer {
  const body = fields.reduce((sum: number, field) => sum + size(field), 5);
  const packet = Buffer.allocUnsafe(4 + body);
  packet.writeUInt32BE(body, 0);
  packet[4] = type;
  packet.writeUInt32BE(id, 5);
  let at = 9;
  for (const field of fields) {
    at = put(packet, at, field);
  }
  return packet;
}

function size(field: Field): number {
  if (typeof field === "number") {
    return 4;
  }
  return typeof field === "string" || Buffer.isBuffer(field) ? 4 + Buffer.byteLength(field) : 8;
}

function put(packet: Buffer, at: number, field: Field): number {
  if (typeof field === "number") {
    return packet.writeUInt32BE(field, at);
  }
  if (typeof field === "string") {
    const length = packet.write(field, at + 4, "utf8");
    packet.writeUInt32BE(length, at);
    return at + 4 + length;
  }
  if (Buffer.isBuffer(field)) {
    packet.writeUInt32BE(field.length, at);
    return at + 4 + field.copy(packet, at + 4);
  }
  if ("offset" in field) {
    return packet.writeBigUInt64BE(BigInt(field.offset), at);
  }
  return packet.writeUInt32BE(field.mode, packet.writeUInt32BE(ATTRIBUTE_PERMISSIONS, at));
}

/** What a HANDLE reply names the open file; undefined where this is none, or has no room for one. */
export function handleIn(packet: Buffer): Buffer | undefined {
  if (packet[0] !== REPLY.HANDLE || packet.length < 9) {
    return undefined;
  }
  return Buffer.from(packet.subarray(9, 9 + packet.readUInt32BE(5)));
}

/** A STATUS reply as an error, whose status is 0 where all is well. Any other reply is a server's fault. */
export function statusOf(packet: Buffer): SftpStatus {
  if (packet[0] !== REPLY.STATUS || packet.length < 9) {
    return new SftpStatus(`an SFTP reply of type ${packet[0] ?? "none"} where a status belongs`, 5);
  }
  const length = packet.length >= 13 ? packet.readUInt32BE(9) : 0;
  const text = printable(packet.toString("utf8", 13, 13 + length), 200);
  const status = packet.readUInt32BE(5);
  const said = text || (STATUS_NAMES[status] ?? "nothing known");
  return new SftpStatus(`SFTP says "${said}" (${status})`, status);
}

/** Cuts the stream into packets, and keeps the beginning of it for when it turns out to be none. */
export class PacketReader {
  #rest = Buffer.alloc(0);
  #sample = Buffer.alloc(0);

  /** The first bytes that came. */
  get sample(): Buffer {
    return this.#sample;
  }

  /** The packets that are complete, without their lengths; null where this is no SFTP. */
  read(chunk: Buffer): Buffer[] | null {
    if (this.#sample.length < LONGEST_SAMPLE) {
      this.#sample = Buffer.concat([this.#sample, chunk.subarray(0, LONGEST_SAMPLE)]);
    }
    const packets: Buffer[] = [];
    let rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    while (rest.length >= 4) {
      const length = rest.readUInt32BE(0);
      if (length === 0 || length > LONGEST_REPLY) {
        return null;
      }
      if (rest.length < 4 + length) {
        break;
      }
      packets.push(rest.subarray(4, 4 + length));
      rest = rest.subarray(4 + length);
    }
    this.#rest = Buffer.from(rest);
    return packets;
  }
}
