/** Every failure of an attempt: a stable code, the step it belongs to, and how soon a retry makes sense. */

export const STEPS = ["locate", "dial", "upload", "run_agent", "verify", "commit"] as const;
export type Step = (typeof STEPS)[number];

/**
 * How soon to try again, by whose fault it looks like:
 * `provider` – the provider could not be asked; `machine` – any other step failed;
 * `record` – what stands in the database makes no sense, so a quick retry would not either.
 */
export type RetryClass = "provider" | "machine" | "record";

interface Failure {
  readonly step: Step;
  readonly retryClass: RetryClass;
}

const failure = (step: Step, retryClass: RetryClass = "machine"): Failure => ({ step, retryClass });

/** The closed list of failure codes. Meaning and remedy of each: docs/failure-codes.md. */
export const FAILURES = {
  TAKEOVER_LOCATE_UNKNOWN_PROVIDER: failure("locate", "record"),
  TAKEOVER_LOCATE_NO_ADDRESS: failure("locate", "provider"),
  TAKEOVER_LOCATE_TIMEOUT: failure("locate", "provider"),
  TAKEOVER_LOCATE_FAILED: failure("locate", "provider"),
  TAKEOVER_LOCATE_GONE: failure("locate", "record"),
  TAKEOVER_DIAL_REFUSED: failure("dial"),
  TAKEOVER_DIAL_TIMEOUT: failure("dial"),
  TAKEOVER_DIAL_UNREACHABLE: failure("dial"),
  TAKEOVER_DIAL_CLOSED: failure("dial"),
  TAKEOVER_DIAL_HANDSHAKE_FAILED: failure("dial"),
  TAKEOVER_DIAL_AUTH_FAILED: failure("dial"),
  TAKEOVER_DIAL_HOST_KEY_CHANGED: failure("dial", "record"),
  TAKEOVER_DIAL_HOST_KEY_MISSING: failure("dial", "record"),
  TAKEOVER_UPLOAD_FAILED: failure("upload"),
  TAKEOVER_UPLOAD_STALLED: failure("upload"),
  TAKEOVER_UPLOAD_TIMEOUT: failure("upload"),
  TAKEOVER_UPLOAD_MISMATCH: failure("upload"),
  TAKEOVER_UPLOAD_CONNECTION_LOST: failure("upload"),
  TAKEOVER_UPLOAD_LOGIN_REFUSED: failure("upload", "record"),
  TAKEOVER_UPLOAD_WRONG_ARCHITECTURE: failure("upload"),
  TAKEOVER_RUN_AGENT_EXITED: failure("run_agent"),
  TAKEOVER_RUN_AGENT_SIGNALED: failure("run_agent"),
  TAKEOVER_RUN_AGENT_TIMEOUT: failure("run_agent"),
  TAKEOVER_RUN_AGENT_NOT_EXECUTABLE: failure("run_agent"),
  TAKEOVER_RUN_AGENT_CONNECTION_LOST: failure("run_agent"),
  TAKEOVER_RUN_AGENT_REFUSED: failure("run_agent"),
  TAKEOVER_RUN_AGENT_OUTPUT_TOO_LARGE: failure("run_agent"),
  TAKEOVER_VERIFY_NO_REPLY: failure("verify"),
  TAKEOVER_VERIFY_UNDECODABLE: failure("verify"),
  TAKEOVER_VERIFY_INIT_MISMATCH: failure("verify"),
  TAKEOVER_VERIFY_KEY_INVALID: failure("verify"),
  TAKEOVER_VERIFY_KEY_TAKEN: failure("verify", "record"),
  TAKEOVER_VERIFY_AGENT_ERROR: failure("verify"),
  TAKEOVER_COMMIT_KEY_LOST: failure("commit"),
} as const satisfies Record<string, Failure>;

export type FailureCode = keyof typeof FAILURES;

/** A failure that is the machine's, its provider's or its row's: it costs a backoff. */
export class TakeoverError extends Error {
  override readonly name = "TakeoverError";
  readonly code: FailureCode;
  readonly step: Step;
  readonly retryClass: RetryClass;

  /** `message` says what was seen and, where it helps, what to do; it never repeats its cause's text. */
  constructor(code: FailureCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
    this.step = FAILURES[code].step;
    this.retryClass = FAILURES[code].retryClass;
  }
}

/** Not now, and nobody's fault: the machine is not ready yet, or its provider asks us to slow down. */
export class Snooze extends Error {
  override readonly name = "Snooze";
  readonly seconds: number;

  constructor(message: string, seconds: number) {
    super(message);
    this.seconds = seconds;
  }
}

/** Longest text from outside that is kept in an error, a log line or a row, in characters. */
const LONGEST_TEXT = 2000;

/**
 * Text that came from a machine or a provider, made safe for errors, logs and SQL: one line, no control
 * or bidirectional characters (they forge log lines and terminal output), no lone surrogates or NULs
 * (Postgres refuses them), bounded.
 */
export function printable(text: string, longest = LONGEST_TEXT): string {
  const clean = text
    .slice(0, longest * 4)
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ")
    .trim();
  const characters = Array.from(clean);
  return characters.length <= longest ? clean : `${characters.slice(0, longest - 1).join("")}…`;
}

/**
 * An error with its chain of causes, on one line, outermost first. Never empty: Node's AggregateError of
 * a dual-stack connect has an empty message and keeps the reasons in `errors`.
 */
export function describe(error: unknown): string {
  const parts: string[] = [];
  let current: unknown = error;
  for (let depth = 0; current !== undefined && current !== null && depth < 8; depth++) {
    const text = describeOne(current);
    if (!parts.includes(text)) {
      parts.push(text);
    }
    current = current instanceof Error ? current.cause : undefined;
  }
  return printable(parts.join(": ") || "no reason given");
}

function describeOne(error: unknown): string {
  if (!(error instanceof Error)) {
    return printable(String(error));
  }
  if (error.message !== "") {
    return printable(error.message);
  }
  if (error instanceof AggregateError && error.errors.length > 0) {
    return printable(error.errors.map(describeOne).join("; "));
  }
  return printable("code" in error ? String(error.code) : error.name);
}
