/**
 * A strict walk over a message on the wire. Generated decoders will not do: they skip what they do not know,
 * take the last of a repeated singular field, and merge messages that were concatenated, so a reply that
 * decodes need not be one that anybody sent. protobufjs' Reader is no base for it either: it cuts a number of
 * 64 bits to 32 and reads on.
 */

/** How a field's content is read: what its wire type must be follows from it. All of ours are length-delimited. */
export type FieldKind = "text" | "bytes" | "message";

export interface FieldRule {
  readonly name: string;
  readonly kind: FieldKind;
  /** Whether it may occur more than once. */
  readonly repeated?: boolean;
}

export type FieldRules = ReadonlyMap<number, FieldRule>;

/** What is wrong with a message on the wire. */
export class WireFault extends Error {
  override readonly name = "WireFault";
}

interface Cursor {
  readonly bytes: Uint8Array;
  at: number;
}

const LENGTH_DELIMITED = 2;
const LONGEST_VARINT = 10;
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * The fields of a message, by name, each with the contents of its occurrences in order. Accepts fields in any
 * order and varints that are longer than need be.
 *
 * @throws WireFault for a truncated message, an unknown field, a wrong wire type, a second occurrence of a
 *   singular field, and text that is not UTF-8
 */
export function walk(message: Uint8Array, rules: FieldRules): Map<string, Uint8Array[]> {
  const cursor: Cursor = { bytes: message, at: 0 };
  const found = new Map<string, Uint8Array[]>();
  while (cursor.at < message.length) {
    const tag = varint(cursor);
    const number = Math.floor(tag / 8);
    const rule = rules.get(number);
    if (rule === undefined) {
      throw new WireFault(`it has a field ${number}, which the protocol does not know`);
    }
    if (tag % 8 !== LENGTH_DELIMITED) {
      throw new WireFault(`its field ${rule.name} has wire type ${tag % 8}`);
    }
    const length = varint(cursor);
    if (length > message.length - cursor.at) {
      throw new WireFault(`it ends in the middle of its field ${rule.name}`);
    }
    const content = message.subarray(cursor.at, cursor.at + length);
    cursor.at += length;
    const earlier = found.get(rule.name);
    if (earlier !== undefined && rule.repeated !== true) {
      throw new WireFault(`its field ${rule.name} occurs twice`);
    }
    if (rule.kind === "text") {
      text(content, rule.name);
    }
    found.set(rule.name, [...(earlier ?? []), content]);
  }
  return found;
}

/** The text of a field that was walked over. */
export function text(content: Uint8Array, name: string): string {
  try {
    return utf8.decode(content);
  } catch {
    throw new WireFault(`its field ${name} is not UTF-8`);
  }
}

/** Tags and lengths have 32 bits at most; what does not fit must not be cut to fit. */
function varint(cursor: Cursor): number {
  let value = 0;
  for (let index = 0; index < LONGEST_VARINT; index++) {
    const byte = cursor.bytes[cursor.at];
    if (byte === undefined) {
      throw new WireFault("it ends in the middle of a number");
    }
    cursor.at += 1;
    value += (byte & 0x7f) * 2 ** (7 * index);
    if (byte < 0x80) {
      if (value > 0xffffffff) {
        throw new WireFault("it has a number that is too large");
      }
      return value;
    }
  }
  throw new WireFault("it has a number without end");
}
