/** Protobuf messages written by hand, so that every encoding can be made and not only the canonical one. */

/** One field: its number, its content, and how it is written. */
export interface WireField {
  readonly number: number;
  readonly content: Uint8Array;
  /** 2 is right for all fields of ours. */
  readonly wireType?: number;
  /** Bytes more than the shortest form of the tag's and the length's varints. */
  readonly tagPadding?: number;
  readonly lengthPadding?: number;
}

export function varint(value: number, padding = 0): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) + 0x80);
    rest = Math.floor(rest / 0x80);
  }
  bytes.push(rest);
  for (let extra = 0; extra < padding; extra++) {
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) | 0x80;
    bytes.push(0);
  }
  return Buffer.from(bytes);
}

export function message(fields: readonly WireField[]): Buffer {
  return Buffer.concat(
    fields.map(({ number, content, wireType = 2, tagPadding, lengthPadding }) =>
      Buffer.concat([
        varint(number * 8 + wireType, tagPadding),
        varint(content.length, lengthPadding),
        content,
      ]),
    ),
  );
}
