import { describe, printable, Snooze, TakeoverError } from "../errors.js";

/** What a log line says of an error. */
export interface ErrorFields {
  readonly type: string;
  /** The whole chain of causes, outermost first, cleaned and bounded. */
  readonly message: string;
  readonly code?: string;
  readonly step?: string;
  /** Only of errors that nobody foresaw. */
  readonly stack?: string;
}

const MOST_FRAMES = 20;

/** An error as fields. What a library hangs on its errors (a URL, a query, its values) is left out. */
export function serializeError(error: unknown): ErrorFields {
  const message = withoutPasswords(describe(error));
  if (!(error instanceof Error)) {
    return { type: typeof error, message };
  }
  const code = "code" in error ? { code: printable(String(error.code), 100) } : {};
  if (error instanceof TakeoverError) {
    return { type: error.name, message, ...code, step: error.step };
  }
  if (error instanceof Snooze) {
    return { type: error.name, message };
  }
  return { type: printable(error.name, 100), message, ...code, ...stackOf(error) };
}

/** The frames alone: the text above them may come from a machine, and is in `message`, cleaned. */
export function stackOf(error: Error): { stack?: string } {
  const frames = (error.stack ?? "")
    .split("\n")
    .filter((line) => /^ {4}at /.test(line))
    .slice(0, MOST_FRAMES)
    .map((line) => `    ${withoutPasswords(printable(line, 300))}`);
  return frames.length === 0 ? {} : { stack: frames.join("\n") };
}

/** `scheme://user:password@host` without the password, should some library quote its URL. */
export function withoutPasswords(text: string): string {
  return text.replace(/(\b[a-z][a-z0-9+.-]*:\/\/[^\s:@/]*):[^\s@/]*@/gi, "$1:[redacted]@");
}
