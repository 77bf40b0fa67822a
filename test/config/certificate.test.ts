import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterEach, describe, expect, it, vi } from "vitest";
import { parseCertificate } from "../../src/config/certificate.js";

const pem = readFileSync(new URL("ca.pem", import.meta.url));
const der = new X509Certificate(pem).raw;

afterEach(() => vi.useRealTimers());

describe("a certificate file", () => {
  it.each([
    ["PEM", pem],
    ["DER", der],
    ["PEM with text above it", Buffer.concat([Buffer.from("Subject: CN=x\n"), pem])],
    ["PEM with CRLF", Buffer.from(pem.toString().replaceAll("\n", "\r\n"))],
  ])("is read from %s, as DER", (_, file) => {
    expect(parseCertificate(file).der.equals(der)).toBe(true);
  });

  it.each([
    ["is empty", Buffer.alloc(0)],
    ["holds no certificate", Buffer.from("hello")],
    ["holds no certificate", der.subarray(0, 100)],
    ["holds no certificate", Buffer.from(pem.toString().replaceAll("\n", "\\n"))],
    ["holds 2 certificates", Buffer.concat([pem, pem])],
    ["has bytes after its certificate", Buffer.concat([der, der])],
  ])("%s: refused", (problem, file) => {
    expect(() => parseCertificate(file)).toThrow(problem);
  });

  it("tells when it has expired", () => {
    expect(parseCertificate(pem).expired).toBe(false);
    vi.useFakeTimers({ now: Date.UTC(2200, 0, 1) });
    expect(parseCertificate(pem).expired).toBe(true);
  });
});
