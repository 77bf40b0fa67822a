import { describe, expect, it } from "vitest";
import {
  expectedHostKey,
  fingerprint,
  hostKeyAlgorithms,
  hostKeyLine,
  judgeHostKey,
  parseHostKey,
} from "../../src/ssh/host-key.js";

// The keys of RFC 8709's and OpenSSH's documentation style, made for this test; fingerprints by ssh-keygen -lf.
const ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
const ED25519_FINGERPRINT = "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU";
const OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIF5UQQxcxFVJzjZKyDhjPTlgXlGHhR0VVzHPMPKiAIGa";

const key = (line: string) => {
  const parsed = parseHostKey(line);
  if (parsed === null) {
    throw new Error(`no key: ${line}`);
  }
  return parsed;
};
const blobOf = (...fields: string[]) =>
  Buffer.concat(
    fields.map((field) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(field.length);
      return Buffer.concat([length, Buffer.from(field)]);
    }),
  ).toString("base64");

describe("host keys", () => {
  it("have the fingerprint that OpenSSH shows", () => {
    expect(fingerprint(key(ED25519))).toBe(ED25519_FINGERPRINT);
  });

  it("are read with or without a comment, and shown without", () => {
    expect(hostKeyLine(key(`  ${ED25519} root@machine\n`))).toBe(ED25519);
  });

  it.each([
    ["nothing", ""],
    ["a type alone", "ssh-ed25519"],
    ["no base64", "ssh-ed25519 ???"],
    ["another type inside than outside", `ssh-rsa ${ED25519.split(" ")[1]}`],
    ["a type that is not in use", `ssh-dss ${blobOf("ssh-dss", "x")}`],
    ["a type and nothing after it", `ssh-ed25519 ${blobOf("ssh-ed25519")}`],
    ["a property of every object", `constructor ${blobOf("constructor", "x")}`],
  ])("are refused as unreadable: %s", (_what, line) => {
    expect(parseHostKey(line)).toBeNull();
  });

  it("are negotiated by the known key's type alone, RSA by SHA-2 signatures only", () => {
    const wanted = { key: key(ED25519), origin: "on record" };
    expect(hostKeyAlgorithms(wanted)).toEqual(["ssh-ed25519"]);
    const rsa = { key: key(`ssh-rsa ${blobOf("ssh-rsa", "e", "n")}`), origin: "on record" };
    expect(hostKeyAlgorithms(rsa)).toEqual(["rsa-sha2-512", "rsa-sha2-256"]);
    expect(hostKeyAlgorithms(null)).not.toContain("ssh-rsa");
  });
});

describe("host-key policies", () => {
  const knowledge = (
    policy: "accept-new" | "pinned" | "insecure",
    required: string | null,
    recorded: string | null,
  ) => ({ policy, required, recorded });
  const missing = expect.objectContaining({ code: "TAKEOVER_DIAL_HOST_KEY_MISSING" });
  const changed = expect.objectContaining({ code: "TAKEOVER_DIAL_HOST_KEY_CHANGED" });

  it("accept-new takes a stranger's key, and no other than the recorded one later", () => {
    expect(expectedHostKey(knowledge("accept-new", null, null))).toBeNull();
    expect(judgeHostKey(key(ED25519), null, "accept-new")).toBe("new");
    const wanted = expectedHostKey(knowledge("accept-new", null, ED25519));
    expect(judgeHostKey(key(ED25519), wanted, "accept-new")).toBe("matched");
    expect(() => judgeHostKey(key(OTHER), wanted, "accept-new")).toThrow(changed);
  });

  it("pinned takes no stranger", () => {
    expect(() => expectedHostKey(knowledge("pinned", null, null))).toThrow(missing);
    expect(expectedHostKey(knowledge("pinned", null, ED25519))?.key).toEqual(key(ED25519));
    expect(expectedHostKey(knowledge("pinned", ED25519, null))?.key).toEqual(key(ED25519));
  });

  it("insecure looks at nothing on record, but at what the row demands", () => {
    expect(expectedHostKey(knowledge("insecure", null, ED25519))).toBeNull();
    expect(judgeHostKey(key(OTHER), null, "insecure")).toBe("unchecked");
    const wanted = expectedHostKey(knowledge("insecure", ED25519, null));
    expect(() => judgeHostKey(key(OTHER), wanted, "insecure")).toThrow(changed);
  });

  it("the row's key goes before the recorded one", () => {
    expect(expectedHostKey(knowledge("accept-new", OTHER, ED25519))?.key).toEqual(key(OTHER));
  });

  it("an unreadable key in the row is a fault of the row", () => {
    expect(() => expectedHostKey(knowledge("insecure", "ssh-ed25519 x\ny", null))).toThrow(missing);
  });

  it("a mismatch names both fingerprints", () => {
    const wanted = expectedHostKey(knowledge("accept-new", null, ED25519));
    expect(() => judgeHostKey(key(OTHER), wanted, "accept-new")).toThrow(
      `shows host key ssh-ed25519 ${fingerprint(key(OTHER))}, but ssh-ed25519 ${ED25519_FINGERPRINT} is on record`,
    );
  });
});
