import { BadValue } from "./bad-value.js";
import { readFile } from "./read-file.js";

const EXAMPLE = "write it like postgres://user:password@host:5432/database";
const ESCAPE = `percent-encode what is special in its user and password, and ${EXAMPLE}`;

/** Parameters that name a file; the driver would read them much later, in the middle of the work. */
const FILES = ["sslrootcert", "sslcert", "sslkey"];

/**
 * A Postgres URL that the driver will understand, with a host or a socket's folder. Returns it as it was.
 * Throws BadValue, which never quotes any part of it: the password may be in any part of a broken one.
 */
export function databaseUrl(text: string): string {
  const url = parse(text);
  if (url.protocol !== "postgres:" && url.protocol !== "postgresql:") {
    throw new BadValue("is not a Postgres URL", EXAMPLE);
  }
  // What follows an unescaped # or / of a password lands in these.
  if (url.hash !== "" || url.pathname.includes("@")) {
    throw new BadValue("has a user or password that is not escaped", ESCAPE);
  }
  try {
    [url.username, url.password, url.hostname, url.pathname].forEach(decodeURIComponent);
  } catch {
    // URIError says no more.
    throw new BadValue("has a % that escapes nothing", ESCAPE);
  }
  if (url.hostname === "" && !url.searchParams.get("host")) {
    throw new BadValue(
      "names no host",
      `${EXAMPLE}, or for a socket postgres:///database?host=/var/run/postgresql`,
    );
  }
  if (url.hostname.includes(",")) {
    throw new BadValue("names several hosts", "give one, such as that of a proxy in front of them");
  }
  for (const name of FILES) {
    const path = url.searchParams.get(name);
    if (path) {
      checkFile(name, path);
    }
  }
  return text;
}

function parse(text: string): URL {
  if (text.trim() !== text || /[\p{Cc}]/u.test(text)) {
    throw new BadValue("has white space around or in it", EXAMPLE);
  }
  // Asked first, since the error that URL throws carries the whole text, password included.
  if (URL.canParse(text)) {
    return new URL(text);
  }
  // A URL with a user but no host is none for WHATWG; libpq and the driver take it.
  if (/^postgres(ql)?:\/\/[^/?#]*@\//.test(text)) {
    return parse(text.replace(/\/\/[^/?#]*@\//, "///"));
  }
  throw /^[a-z][a-z0-9+.-]*:\/\//i.test(text)
    ? new BadValue("is not a valid URL", ESCAPE)
    : new BadValue("is not a Postgres URL", EXAMPLE);
}

function checkFile(name: string, path: string): void {
  try {
    readFile(path, 1024 * 1024);
  } catch (error) {
    if (error instanceof BadValue) {
      throw new BadValue(`has an ${name} that ${error.message}`, error.remedy);
    }
    throw error;
  }
}

/** The database by role, host, port and name, without the password: for logs and messages. */
export function databaseLabel(text: string): string {
  const url = parse(text);
  const host = url.searchParams.get("host") ?? decodeURIComponent(url.hostname);
  const port = url.searchParams.get("port") ?? url.port;
  const user = decodeURIComponent(url.username);
  const name = decodeURIComponent(url.pathname);
  return `${user === "" ? "" : `${user}@`}${host}${port === "" ? "" : `:${port}`}${name}`;
}
