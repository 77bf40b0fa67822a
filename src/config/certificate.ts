import { X509Certificate } from "node:crypto";
import { BadValue } from "./bad-value.js";

export interface Certificate {
  readonly der: Buffer;
  readonly expired: boolean;
}

/** The one certificate in a file, PEM or DER. Throws BadValue. */
export function parseCertificate(file: Buffer): Certificate {
  const begins = file.toString("latin1").split("-----BEGIN CERTIFICATE-----").length - 1;
  if (begins > 1) {
    throw new BadValue(`holds ${begins} certificates`, "give a file with one");
  }
  const certificate = parse(file);
  if (begins === 0 && certificate.raw.length !== file.length) {
    throw new BadValue("has bytes after its certificate", "give a file with one in PEM or DER");
  }
  return { der: certificate.raw, expired: Date.parse(certificate.validTo) < Date.now() };
}

function parse(file: Buffer): X509Certificate {
  try {
    return new X509Certificate(file);
  } catch (error) {
    throw new BadValue(
      file.length === 0 ? "is empty" : "holds no certificate that can be read",
      "give one in PEM or DER",
      { cause: error },
    );
  }
}
