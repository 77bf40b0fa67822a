import { spawnSync } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { BadValue } from "../../src/config/bad-value.js";
import { ed25519PrivateFile } from "../../src/ssh/openssh-key.js";
import { parsePrivateKey } from "../../src/ssh/private-key.js";

const missing = spawnSync("ssh-keygen", ["-?"]).error !== undefined;
if (missing && process.env.CI) {
  throw new Error("ssh-keygen is missing: apt-get install -y openssh-client");
}
const withKeygen = describe.skipIf(missing);
const unless = missing ? " (skipped; apt-get install -y openssh-client mends it)" : "";

const PHRASE = "correct horse";
const folder = mkdtempSync(join(tmpdir(), "takeover-keys-"));
afterAll(() => rmSync(folder, { recursive: true }));

let count = 0;
/** A key made by the real ssh-keygen: its text, and its public line without the comment. */
function keygen(...args: string[]): { text: string; publicText: string; publicLine: string } {
  const path = join(folder, `key${count++}`);
  const phrase = args.includes("-N") ? [] : ["-N", ""];
  const made = spawnSync("ssh-keygen", ["-q", "-a", "1", ...args, ...phrase, "-f", path]);
  if (made.status !== 0) {
    throw new Error(`ssh-keygen ${args.join(" ")}: ${made.stderr}`);
  }
  const publicText = readFileSync(`${path}.pub`, "utf8");
  return {
    text: readFileSync(path, "utf8"),
    publicText,
    publicLine: publicText.split(" ").slice(0, 2).join(" "),
  };
}

const lines = (text: string) => text.split("\n");

withKeygen(`a key made by ssh-keygen${unless}`, () => {
  const kinds = [
    ["Ed25519", ["-t", "ed25519"]],
    ["RSA", ["-t", "rsa", "-b", "2048"]],
    ["ECDSA 256", ["-t", "ecdsa", "-b", "256"]],
    ["ECDSA 384", ["-t", "ecdsa", "-b", "384"]],
    ["ECDSA 521", ["-t", "ecdsa", "-b", "521"]],
    ["RSA as PKCS#1", ["-t", "rsa", "-b", "2048", "-m", "PEM"]],
    ["ECDSA as SEC1", ["-t", "ecdsa", "-b", "384", "-m", "PEM"]],
    ["RSA as PKCS#8", ["-t", "rsa", "-b", "2048", "-m", "PKCS8"]],
    ["ECDSA as PKCS#8", ["-t", "ecdsa", "-b", "521", "-m", "PKCS8"]],
  ] as const;

  it.each(kinds)("is read: %s", (_, args) => {
    const key = keygen(...args);
    expect(parsePrivateKey(key.text, null).publicLine).toBe(key.publicLine);
    expect(parsePrivateKey(Buffer.from(key.text), "needless").publicLine).toBe(key.publicLine);
  });

  it.each(kinds)(
    "is read where a passphrase locks it, and told where it does not fit: %s",
    (_, args) => {
      const key = keygen(...args, "-N", PHRASE);
      expect(parsePrivateKey(key.text, PHRASE).publicLine).toBe(key.publicLine);
      const locked = faultOf(key.text, null);
      expect(locked).toContain("is locked by a passphrase; set TAKEOVER_SSH_KEY_PASSPHRASE or");
      expect(locked).toContain("TAKEOVER_SSH_KEY_PASSPHRASE_FILE");
      expect(faultOf(key.text, "wrong")).toContain("does not open with the passphrase given");
    },
  );

  it.each(["aes128-ctr", "aes256-cbc", "aes256-gcm@openssh.com", "3des-cbc"])(
    "is read where it is encrypted with %s",
    (cipher) => {
      const key = keygen("-t", "ed25519", "-Z", cipher, "-N", PHRASE);
      expect(parsePrivateKey(key.text, PHRASE).publicLine).toBe(key.publicLine);
    },
  );

  it("is refused with the way out where its cipher is not supported", () => {
    const key = keygen("-t", "ed25519", "-Z", "chacha20-poly1305@openssh.com", "-N", PHRASE);
    expect(faultOf(key.text, PHRASE)).toContain("ssh-keygen -p -Z aes256-ctr");
  });

  it("is read with CRLF, a byte order mark, no final newline, or text around it", () => {
    for (const form of [[], ["-m", "PKCS8"]]) {
      const { text, publicLine } = keygen("-t", "ecdsa", ...form);
      for (const variant of [
        text.replaceAll("\n", "\r\n"),
        `\uFEFF${text}`,
        text.trimEnd(),
        `\n\nBag Attributes\n  name: x\n${text}\nmore\n`,
      ]) {
        expect(parsePrivateKey(variant, null).publicLine).toBe(publicLine);
      }
    }
  });

  it("is refused where it is the public half", () => {
    const key = keygen("-t", "ed25519");
    expect(faultOf(key.publicText)).toContain("holds a public key; give the private one");
    const rsa = keygen("-t", "rsa", "-b", "2048");
    expect(faultOf(rsa.publicText)).toContain("holds a public key");
  });

  it("is refused where it was damaged on its way, without a word of it", () => {
    const { text } = keygen("-t", "ed25519");
    const rsa = keygen("-t", "rsa", "-b", "2048", "-m", "PEM").text;
    const damaged = [text, rsa].flatMap((key): [string, string][] => [
      [key.replaceAll("\n", "\\n"), "has lost its line breaks"],
      [key.replaceAll("\n", " "), "has lost its line breaks"],
      [key.replaceAll("\n", ""), "has lost its line breaks"],
      [key.replace(/^/gm, "  "), "is cut off or has its lines moved"],
      [lines(key).slice(0, 4).join("\n"), "is cut off or has its lines moved"],
      [
        lines(key)
          .filter((_, index) => index !== 2)
          .join("\n"),
        "is damaged",
      ],
      [Buffer.from(key).toString("base64"), "holds no private key"],
    ]);
    for (const [broken, problem] of damaged) {
      const told = faultOf(broken);
      expect(told).toContain(problem);
      for (const line of lines(text).concat(lines(rsa)).slice(1, -2)) {
        expect(told).not.toContain(line.slice(0, 30) || "\0");
      }
    }
  });
});

describe("an OpenSSH key whose halves do not belong together", () => {
  it("is refused", () => {
    const pair = { publicKey: randomBytes(32), seed: randomBytes(32) };
    expect(faultOf(ed25519PrivateFile(pair, "c"))).toContain("does not fit its public one");
  });
});

describe("a key in PKCS#8", () => {
  it("is read where it is Ed25519, locked or not", () => {
    const { privateKey } = generateKeyPairSync("ed25519");
    const plain = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    const locked = privateKey
      .export({ type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: PHRASE })
      .toString();
    const { publicLine } = parsePrivateKey(plain, null);
    expect(publicLine).toMatch(/^ssh-ed25519 AAAA/);
    expect(parsePrivateKey(locked, PHRASE).publicLine).toBe(publicLine);
    expect(faultOf(locked, "wrong")).toContain("does not open with the passphrase given");
    expect(faultOf(locked)).toContain("is locked by a passphrase");
  });

  it.each([
    ["x25519", generateKeyPairSync("x25519")],
    ["ed448", generateKeyPairSync("ed448")],
    ["an unusual curve", generateKeyPairSync("ec", { namedCurve: "secp256k1" })],
  ])("is refused where SSH has no such type: %s", (_, { privateKey }) => {
    const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    expect(faultOf(pem)).toContain("is of a type that is not supported");
  });

  it("is refused where it is public", () => {
    const { publicKey } = generateKeyPairSync("ed25519");
    const pem = publicKey.export({ type: "spki", format: "pem" }).toString();
    expect(faultOf(pem)).toContain("holds a public key");
  });
});

describe("what is no key", () => {
  it.each([
    ["", "is empty; make one with `takeover keygen PATH`"],
    [" \n", "is empty"],
    ["hello", "holds no private key"],
    ["-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "holds no private key"],
    [
      "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\n",
      "puttygen KEY.ppk -O private-openssh",
    ],
    ["-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "is damaged"],
    [
      "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
      "is damaged",
    ],
  ])("is refused: %j", (text, sentence) => {
    expect(faultOf(text)).toContain(sentence);
  });

  it("is refused where it is binary", () => {
    expect(faultOf(Buffer.from([0, 255, 254, 1, 2]))).toContain("holds no private key");
  });
});

function faultOf(text: string | Buffer, passphrase: string | null = null): string {
  try {
    parsePrivateKey(text, passphrase);
  } catch (error) {
    if (error instanceof BadValue) {
      return `${error.message}; ${error.remedy}`;
    }
    throw error;
  }
  return "no fault";
}
