import { createPrivateKey, type KeyObject } from "node:crypto";
import ssh2, { type ParsedKey } from "ssh2";
import { BadValue } from "../config/bad-value.js";
import { ed25519PrivateFile, opensshCipher } from "./openssh-key.js";

/** A private key that was parsed, and decrypted where it was encrypted. */
export interface PrivateKey {
  readonly parsed: ParsedKey;
  /** `<type> <base64>`, as OpenSSH prints it. */
  readonly publicLine: string;
}

const NEW_KEY = "make one with `takeover keygen PATH`";
const COPY = "copy the file as it is, byte for byte";

/**
 * Reads a private key: OpenSSH's own format, or PEM (PKCS#1, SEC1, PKCS#8), encrypted or not. Throws
 * BadValue, whose text never quotes the file. It is checked here, once, since ssh2 finds fault with a key
 * only when it connects, and takes a public key for a private one.
 */
export function parsePrivateKey(file: Buffer | string, passphrase: string | null): PrivateKey {
  const text = Buffer.from(file)
    .toString("utf8")
    .replace(/^\uFEFF/, "")
    .trim();
  refuseOtherThings(text);
  const { label, body, pem } = armour(text);
  const readable =
    label === "OPENSSH PRIVATE KEY" ? openssh(pem, body, passphrase) : converted(pem, passphrase);
  return usable(parse(readable, passphrase));
}

/** What people give in place of a private key, by its first words. */
function refuseOtherThings(text: string): void {
  if (text === "") {
    throw new BadValue("is empty", NEW_KEY);
  }
  if (/^(ssh|ecdsa|sk)-\S+ |^-{4,5} ?BEGIN (SSH2 |RSA )?PUBLIC KEY/.test(text)) {
    throw new BadValue(
      "holds a public key",
      "give the private one, mostly the same path without .pub",
    );
  }
  if (text.startsWith("PuTTY-User-Key-File-")) {
    throw new BadValue(
      "is in PuTTY's format",
      "convert it with `puttygen KEY.ppk -O private-openssh -o KEY`",
    );
  }
  if (!/-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/.test(text)) {
    throw new BadValue("holds no private key", `give one in OpenSSH's format, or ${NEW_KEY}`);
  }
}

/** The parts of a PEM file. Text around it, such as a bag's attributes, is dropped. */
function armour(text: string): { label: string; body: string; pem: string } {
  const begin = text.slice(text.indexOf("-----BEGIN"));
  const found = /^-----BEGIN ([A-Z0-9 ]+)-----\r?\n([\s\S]+?)\r?\n-----END \1-----/.exec(begin);
  const [pem, label, body] = found ?? [];
  if (pem === undefined || label === undefined || body === undefined) {
    throw /^-----BEGIN [A-Z0-9 ]+-----\r?\n/.test(begin)
      ? new BadValue("is cut off or has its lines moved", COPY)
      : new BadValue("has lost its line breaks", COPY);
  }
  if (/^[ \t]|^-----BEGIN/m.test(body)) {
    throw new BadValue("is cut off or has its lines moved", COPY);
  }
  return { label, body, pem };
}

function openssh(pem: string, body: string, passphrase: string | null): string {
  const cipher = opensshCipher(body);
  if (cipher === null) {
    throw new BadValue("is damaged", COPY);
  }
  if (cipher !== "none" && passphrase === null) {
    throw needsPassphrase();
  }
  if (cipher.startsWith("chacha20")) {
    throw new BadValue(
      `is encrypted with ${cipher}, which is not supported`,
      "encrypt it anew with `ssh-keygen -p -Z aes256-ctr -f KEY`",
    );
  }
  return pem;
}

/**
 * PEM goes through Node's own crypto: ssh2 reads no PKCS#8 and only some ciphers. What comes out is in
 * the one form of that key type that ssh2 reads.
 */
function converted(pem: string, passphrase: string | null): string {
  const key = decrypted(pem, passphrase);
  switch (key.asymmetricKeyType) {
    case "rsa":
      return key.export({ type: "pkcs1", format: "pem" }).toString();
    case "ec":
      return key.export({ type: "sec1", format: "pem" }).toString();
    case "ed25519": {
      const { x, d } = key.export({ format: "jwk" });
      const pair = {
        publicKey: Buffer.from(x ?? "", "base64url"),
        seed: Buffer.from(d ?? "", "base64url"),
      };
      return ed25519PrivateFile(pair, "");
    }
    default:
      throw unsupported(key.asymmetricKeyType ?? "unknown");
  }
}

function decrypted(pem: string, passphrase: string | null): KeyObject {
  const encrypted = /BEGIN ENCRYPTED|^Proc-Type: 4,ENCRYPTED/m.test(pem);
  if (encrypted && passphrase === null) {
    throw needsPassphrase();
  }
  try {
    return createPrivateKey({ key: pem, ...(passphrase === null ? {} : { passphrase }) });
  } catch (error) {
    throw encrypted ? wrongPassphrase(error) : new BadValue("is damaged", COPY, { cause: error });
  }
}

/** ssh2 returns an error or throws one; from OpenSSH's format it returns an array, whatever its types say. */
function parse(text: string, passphrase: string | null): ParsedKey {
  let parsed: ParsedKey | ParsedKey[] | Error;
  try {
    parsed = ssh2.utils.parseKey(text, passphrase ?? undefined);
  } catch (error) {
    parsed = error instanceof Error ? error : new Error(String(error));
  }
  if (parsed instanceof Error) {
    throw reason(parsed);
  }
  const keys = Array.isArray(parsed) ? parsed : [parsed];
  const [key] = keys;
  if (key === undefined || keys.length > 1) {
    throw new BadValue(`holds ${keys.length} keys`, "give a file with one");
  }
  return key;
}

function reason(error: Error): BadValue {
  if (/passphrase|decrypt|integrity|authenticate/i.test(error.message)) {
    return wrongPassphrase(error);
  }
  const type = /^Unsupported .*?: (\S{1,64})$/.exec(error.message)?.[1];
  return type === undefined
    ? new BadValue("is damaged", COPY, { cause: error })
    : unsupported(type);
}

/** A key that opens something: private, of a type that servers take, and its two halves belong together. */
function usable(key: ParsedKey): PrivateKey {
  if (!key.isPrivateKey()) {
    throw new BadValue("holds a public key", "give the private one");
  }
  if (key.type === "ssh-dss") {
    throw unsupported("DSA");
  }
  if (!signs(key)) {
    throw new BadValue("holds a private key that does not fit its public one", NEW_KEY);
  }
  return { parsed: key, publicLine: `${key.type} ${key.getPublicSSH().toString("base64")}` };
}

function signs(key: ParsedKey): boolean {
  const message = Buffer.from("takeover");
  try {
    // Both return their errors; `verify` then is not `true`.
    return key.verify(message, key.sign(message)) === true;
  } catch {
    // A key that cannot even be tried does not fit either.
    return false;
  }
}

function needsPassphrase(): BadValue {
  return new BadValue(
    "is locked by a passphrase",
    "set TAKEOVER_SSH_KEY_PASSPHRASE or TAKEOVER_SSH_KEY_PASSPHRASE_FILE",
  );
}

function wrongPassphrase(cause: unknown): BadValue {
  return new BadValue(
    "does not open with the passphrase given",
    "check TAKEOVER_SSH_KEY_PASSPHRASE or TAKEOVER_SSH_KEY_PASSPHRASE_FILE",
    { cause },
  );
}

function unsupported(type: string): BadValue {
  return new BadValue(
    `is of a type that is not supported (${type})`,
    "give an Ed25519, ECDSA (nistp256, 384 or 521) or RSA key",
  );
}
