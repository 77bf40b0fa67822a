import { randomBytes } from "node:crypto";

/** The raw halves of an Ed25519 key, 32 bytes each. */
export interface Ed25519Pair {
  readonly publicKey: Buffer;
  readonly seed: Buffer;
}

const MAGIC = "openssh-key-v1\0";
const TYPE = "ssh-ed25519";
const LINE = 70;
const BLOCK = 8;

/** A length and the bytes, as SSH writes every string. */
function field(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** A public key as SSH sends it. */
const publicBlob = (publicKey: Buffer) => Buffer.concat([field(TYPE), field(publicKey)]);

/** `ssh-ed25519 <base64>`, as in a `.pub` file, without a comment. */
export function ed25519PublicLine(publicKey: Buffer): string {
  return `${TYPE} ${publicBlob(publicKey).toString("base64")}`;
}

/** The file that ssh-keygen would write for this key: unencrypted, format openssh-key-v1. */
export function ed25519PrivateFile(pair: Ed25519Pair, comment: string): string {
  const check = randomBytes(4);
  const secret = Buffer.concat([
    // Twice the same: how a reader tells that it decrypted with the right passphrase.
    check,
    check,
    field(TYPE),
    field(pair.publicKey),
    field(Buffer.concat([pair.seed, pair.publicKey])),
    field(comment),
  ]);
  const padding = Buffer.from(
    Array.from({ length: (BLOCK - (secret.length % BLOCK)) % BLOCK }, (_, index) => index + 1),
  );
  const body = Buffer.concat([
    Buffer.from(MAGIC),
    field("none"), // cipher
    field("none"), // key derivation
    field(""), // its options
    uint32(1), // keys in this file
    field(publicBlob(pair.publicKey)),
    field(Buffer.concat([secret, padding])),
  ]).toString("base64");
  const lines = body.match(new RegExp(`.{1,${LINE}}`, "g")) ?? [];
  return [
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    ...lines,
    "-----END OPENSSH PRIVATE KEY-----",
    "",
  ].join("\n");
}

/** The cipher that an OpenSSH private key says it is encrypted with, `none` for none; null if it says nothing. */
export function opensshCipher(body: string): string | null {
  const bytes = Buffer.from(body, "base64");
  const start = MAGIC.length;
  if (bytes.length < start + 4 || bytes.toString("latin1", 0, start) !== MAGIC) {
    return null;
  }
  const length = bytes.readUInt32BE(start);
  return length > 64 ? null : bytes.toString("latin1", start + 4, start + 4 + length);
}
