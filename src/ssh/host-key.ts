import { createHash } from "node:crypto";
import type { HostKeyPolicy } from "../config/host-key-policy.js";
import { printable, TakeoverError } from "../errors.js";
import type { HostKeyDecision } from "../telemetry/labels.js";

/** A host's public key. */
export interface HostKey {
  readonly type: string;
  /** The key in the wire format of RFC 4253, section 6.6. */
  readonly blob: Buffer;
}

/** What is known of a machine's host key before it is dialled, and what to make of it. */
export interface HostKeyKnowledge {
  readonly policy: HostKeyPolicy;
  /** `<type> <base64>` from the machine's row: must be shown, whatever the policy. */
  readonly required: string | null;
  /** `<type> <base64>` from an earlier takeover. */
  readonly recorded: string | null;
}

/** The key that must be shown, and where that stands; null where any will do. */
export interface ExpectedHostKey {
  readonly key: HostKey;
  readonly origin: string;
}

/**
 * Signature algorithms by key type. A key of type ssh-rsa signs with SHA-2 (RFC 8332); its old SHA-1
 * signatures are never accepted, so that what was recorded once can always be negotiated again.
 */
const SIGNATURES: Readonly<Record<string, readonly string[]>> = {
  "ssh-ed25519": ["ssh-ed25519"],
  "ecdsa-sha2-nistp256": ["ecdsa-sha2-nistp256"],
  "ecdsa-sha2-nistp384": ["ecdsa-sha2-nistp384"],
  "ecdsa-sha2-nistp521": ["ecdsa-sha2-nistp521"],
  "ssh-rsa": ["rsa-sha2-512", "rsa-sha2-256"],
};

/** What to offer in the negotiation: the algorithms of the expected key's type alone, or all that we take. */
export function hostKeyAlgorithms(expected: ExpectedHostKey | null): string[] {
  return expected === null
    ? Object.values(SIGNATURES).flat()
    : [...(SIGNATURES[expected.key.type] ?? [])];
}

/** The SHA-256 fingerprint in OpenSSH's notation. */
export function fingerprint(key: HostKey): string {
  const digest = createHash("sha256").update(key.blob).digest("base64");
  return `SHA256:${digest.replace(/=+$/, "")}`;
}

/** `<type> SHA256:…` of a `<type> <base64>`, as people compare it; null where that is no key. */
export function shownHostKey(line: string): string | null {
  const key = parseHostKey(line);
  return key === null ? null : `${key.type} ${fingerprint(key)}`;
}

/** `<type> <base64>`, as in OpenSSH's `.pub` files, without a comment. */
export function hostKeyLine(key: HostKey): string {
  return `${key.type} ${key.blob.toString("base64")}`;
}

/** Reads a key from its wire format; null where it is none. */
export function hostKeyFromBlob(blob: Buffer): HostKey | null {
  const length = blob.length < 4 ? 0 : blob.readUInt32BE(0);
  if (length === 0 || length > 64 || blob.length <= 4 + length) {
    return null;
  }
  return { type: blob.toString("latin1", 4, 4 + length), blob };
}

/** Reads `<type> <base64>`, with or without a comment; null where it is no key, or of a type we do not take. */
export function parseHostKey(line: string): HostKey | null {
  const [type, base64] = line.trim().split(/\s+/);
  if (type === undefined || base64 === undefined || !/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) {
    return null;
  }
  const key = hostKeyFromBlob(Buffer.from(base64, "base64"));
  return key !== null && key.type === type && Object.hasOwn(SIGNATURES, type) ? key : null;
}

/**
 * The key a machine must show.
 *
 * @throws TakeoverError TAKEOVER_DIAL_HOST_KEY_MISSING where the policy wants a known key and there is none that can be read
 */
export function expectedHostKey(known: HostKeyKnowledge): ExpectedHostKey | null {
  if (known.required !== null) {
    return expected(known.required, "demanded by ssh_host_key in the machine's row");
  }
  if (known.policy === "insecure") {
    return null;
  }
  if (known.recorded !== null) {
    return expected(known.recorded, "on record from its last takeover");
  }
  if (known.policy === "pinned") {
    throw new TakeoverError(
      "TAKEOVER_DIAL_HOST_KEY_MISSING",
      "no host key is on record for the machine, and --host-key-policy pinned dials no stranger: set ssh_host_key in its row",
    );
  }
  return null;
}

function expected(line: string, origin: string): ExpectedHostKey {
  const key = parseHostKey(line);
  if (key === null) {
    throw new TakeoverError(
      "TAKEOVER_DIAL_HOST_KEY_MISSING",
      `the host key ${origin} is not "<type> <base64>" of a type in use: "${printable(line, 60)}"`,
    );
  }
  return { key, origin };
}

/**
 * Judges the key that was shown.
 *
 * @throws TakeoverError TAKEOVER_DIAL_HOST_KEY_CHANGED, naming both fingerprints
 */
export function judgeHostKey(
  shown: HostKey,
  wanted: ExpectedHostKey | null,
  policy: HostKeyPolicy,
): HostKeyDecision {
  if (wanted === null) {
    return policy === "insecure" ? "unchecked" : "new";
  }
  if (shown.blob.equals(wanted.key.blob)) {
    return "matched";
  }
  throw new TakeoverError(
    "TAKEOVER_DIAL_HOST_KEY_CHANGED",
    `the machine shows host key ${printable(shown.type, 40)} ${fingerprint(shown)}, but ${describeExpected(wanted)}`,
  );
}

export function describeExpected(wanted: ExpectedHostKey): string {
  return `${wanted.key.type} ${fingerprint(wanted.key)} is ${wanted.origin}`;
}
