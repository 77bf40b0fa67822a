import { ed25519 } from "@noble/curves/ed25519.js";
import { printable, TakeoverError } from "../errors.js";
import type { TakeoverInit } from "./init.js";
import { type FieldRules, text, WireFault, walk } from "./response-walk.js";
import type { AgentReply } from "./run-agent.js";
import type { TakeoverSettings } from "./settings.js";

/** What a reply that is accepted tells. */
export interface VerifiedReply {
  /** The agent's Ed25519 public key: 32 bytes. */
  readonly agentKey: Uint8Array;
  /** What the operator should know though the agent runs; printable, a few at most. */
  readonly warnings: string[];
}

const RESPONSE_FIELDS: FieldRules = new Map([
  [1, { name: "init_message", kind: "message" }],
  [2, { name: "key", kind: "bytes" }],
  [3, { name: "warning", kind: "text", repeated: true }],
  [4, { name: "error", kind: "text" }],
]);

const INIT_FIELDS: FieldRules = new Map([
  [1, { name: "provider", kind: "text" }],
  [2, { name: "provider_id", kind: "text" }],
  [3, { name: "bmaas_endpoint", kind: "text" }],
  [4, { name: "machine_id", kind: "text" }],
  [5, { name: "ca_certificate", kind: "bytes" }],
  [6, { name: "nonce", kind: "bytes" }],
]);

/** What agents of the first generation know of the init; they drop the rest. */
const FIRST_GENERATION = ["provider", "provider_id", "bmaas_endpoint"];

const KEY_BYTES = 32;
const MOST_WARNINGS = 20;
const LONGEST_WARNING = 500;

/**
 * Judges the agent's reply to the init of this attempt. Accepted is every protobuf encoding of a response in
 * which init and key occur once and nothing unknown occurs, whose init equals the one that was sent, whose key
 * is a point of the curve (RFC 8032, section 5.1.3) and not of small order, and whose error is empty.
 *
 * @throws TakeoverError of the step `verify`; where the run was cut short and the reply is not acceptable, the
 *   failure of the run
 */
export async function verify(
  { reply, init }: { readonly reply: AgentReply; readonly init: TakeoverInit },
  settings: Pick<TakeoverSettings, "acceptFirstGenerationAgents">,
  signal: AbortSignal,
): Promise<VerifiedReply> {
  signal.throwIfAborted();
  try {
    return judge(reply, init, settings.acceptFirstGenerationAgents);
  } catch (error) {
    throw reply.cutShort ?? error;
  }
}

function judge(reply: AgentReply, init: TakeoverInit, acceptFirst: boolean): VerifiedReply {
  if (reply.bytes.length === 0) {
    throw failure("NO_REPLY", withStderr("the agent exited 0 and answered nothing", reply));
  }
  const { response, echo } = decode(reply);
  const error = response.get("error")?.map((content) => text(content, "error"))[0] ?? "";
  if (error !== "") {
    throw failure("AGENT_ERROR", `the agent could not start: ${printable(error)}`);
  }
  if (echo === undefined) {
    throw failure("UNDECODABLE", "the agent's reply has no init_message");
  }
  mustEcho(echo, init, acceptFirst);
  const [key] = response.get("key") ?? [];
  if (key === undefined) {
    throw failure("KEY_INVALID", "the agent's reply has no key");
  }
  mustBeKey(key);
  return { agentKey: Uint8Array.from(key), warnings: warningsOf(response.get("warning") ?? []) };
}

type Fields = Map<string, Uint8Array[]>;

function decode(reply: AgentReply): { response: Fields; echo: Fields | undefined } {
  try {
    const response = walk(reply.bytes, RESPONSE_FIELDS);
    const [init] = response.get("init_message") ?? [];
    return { response, echo: init === undefined ? undefined : walk(init, INIT_FIELDS) };
  } catch (error) {
    if (error instanceof WireFault) {
      const sample = printable(Buffer.from(reply.bytes).toString("latin1"), 100);
      throw failure(
        "UNDECODABLE",
        withStderr(
          `the agent's reply of ${reply.bytes.length} bytes is no TakeoverResponse: ${error.message}; it begins "${sample}"`,
          reply,
        ),
      );
    }
    throw error;
  }
}

/** Field by field, so that the cause can name what differs. An absent field is an empty one. */
function mustEcho(echo: Fields, init: TakeoverInit, acceptFirst: boolean): void {
  const sent: Readonly<Record<string, string | Uint8Array>> = {
    provider: init.provider,
    provider_id: init.providerId,
    bmaas_endpoint: init.bmaasEndpoint,
    machine_id: init.machineId,
    ca_certificate: init.caCertificate,
    nonce: init.nonce,
  };
  const differing = Object.entries(sent)
    .filter(([name, value]) => !Buffer.from(value).equals(echo.get(name)?.[0] ?? Buffer.alloc(0)))
    .map(([name]) => name);
  const later = Object.keys(sent).filter((name) => !FIRST_GENERATION.includes(name));
  const firstGeneration =
    later.every((name) => !echo.has(name)) &&
    differing.every((name) => !FIRST_GENERATION.includes(name));
  if (differing.length === 0 || (firstGeneration && acceptFirst)) {
    return;
  }
  throw failure("INIT_MISMATCH", whatDiffers(differing, echo, firstGeneration));
}

function whatDiffers(differing: string[], echo: Fields, firstGeneration: boolean): string {
  if (firstGeneration) {
    return "the agent echoes only the first three fields of the init, as first-generation agents do: upgrade it, or set --accept-first-generation-agents";
  }
  const about = `the agent's reply echoes another init: ${differing.join(", ")} differ${differing.length === 1 ? "s" : ""}`;
  for (const [name, meaning] of [
    ["machine_id", "it answers for another machine"],
    ["provider_id", "it answers for another machine"],
    ["nonce", "it answers an earlier attempt"],
  ] as const) {
    if (differing.includes(name)) {
      const shown = Buffer.from(echo.get(name)?.[0] ?? "");
      const value = name === "nonce" ? "" : `, ${name} "${printable(shown.toString("utf8"), 128)}"`;
      return `${about}; ${meaning}${value}`;
    }
  }
  return about;
}

/** Node's own crypto takes any 32 bytes for a key; @noble/curves decodes strictly, as RFC 8032 asks. */
function mustBeKey(key: Uint8Array): void {
  if (key.length !== KEY_BYTES) {
    throw failure("KEY_INVALID", `the agent's key has ${key.length} bytes, not ${KEY_BYTES}`);
  }
  let smallOrder: boolean;
  try {
    smallOrder = ed25519.Point.fromBytes(Uint8Array.from(key), false).isSmallOrder();
  } catch (error) {
    throw new TakeoverError(
      "TAKEOVER_VERIFY_KEY_INVALID",
      "the agent's key is no point of the curve Ed25519",
      { cause: error },
    );
  }
  if (smallOrder) {
    throw failure(
      "KEY_INVALID",
      "the agent's key is a point of small order: anybody could sign for it",
    );
  }
}

function warningsOf(contents: readonly Uint8Array[]): string[] {
  const shown = contents
    .slice(0, MOST_WARNINGS)
    .map((content) => printable(text(content, "warning"), LONGEST_WARNING));
  const left = contents.length - shown.length;
  return left > 0 ? [...shown, `${left} more warnings were left out`] : shown;
}

function failure(
  what: "NO_REPLY" | "UNDECODABLE" | "INIT_MISMATCH" | "KEY_INVALID" | "AGENT_ERROR",
  message: string,
): TakeoverError {
  return new TakeoverError(`TAKEOVER_VERIFY_${what}`, message);
}

function withStderr(message: string, { stderr }: AgentReply): string {
  return stderr === "" ? message : `${message}; its standard error ends: ${stderr}`;
}
