import type { Random } from "../chaos/random.js";

/** Ways to misbehave below SSH, on the bytes of the connection, and so at any moment. */
const ON_THE_WIRE = ["reset", "end", "stall", "garbage", "flood", "drip"] as const;
/** Messages of SSH that nobody asked for, or that make no sense. */
const ODD_MESSAGES = ["odd messages"] as const;
/** Answers to a request for a channel, or for something on one. */
const TO_A_REQUEST = ["refuse", "silence"] as const;
/** What a command writes and how it ends. */
const OF_A_COMMAND = [
  "odd output",
  "output flood",
  "output drip",
  "error flood",
  "close",
  "exit 3",
  "signal",
  "silence",
] as const;
/** Answers to a request for something with a file. */
const OF_SFTP = ["refuse", "silence", "odd reply", "garbage reply", "reply flood"] as const;

const EARLY = ON_THE_WIRE;
const ANY = [...ON_THE_WIRE, ...ODD_MESSAGES];
const REQUEST = [...ANY, ...TO_A_REQUEST];
const COMMAND = [...ANY, ...OF_A_COMMAND];
const FILE = [...ANY, ...OF_SFTP];

/** When a peer may begin to misbehave, in the order of an attempt, and how it may then. */
const STAGES = {
  connected: EARLY,
  identification: EARLY,
  "key exchange": ANY,
  authentication: REQUEST,
  channel: REQUEST,
  prepare: REQUEST,
  "prepare answers": COMMAND,
  sftp: REQUEST,
  guard: REQUEST,
  "guard runs": COMMAND,
  create: FILE,
  write: FILE,
  "close file": FILE,
  "end of sftp": ANY,
  receive: REQUEST,
  "receive answers": COMMAND,
  install: REQUEST,
  "install answers": COMMAND,
  agent: REQUEST,
  marker: COMMAND,
  reply: COMMAND,
  "exit status": COMMAND,
  "end of agent": ANY,
  "so many bytes out": ANY,
  "so many bytes in": ANY,
} as const satisfies Record<string, readonly string[]>;

export type Stage = keyof typeof STAGES;
export type WireKind = (typeof ON_THE_WIRE)[number];
export type Kind = (typeof STAGES)[Stage][number];

export const isWireKind = (kind: Kind): kind is WireKind =>
  (ON_THE_WIRE as readonly string[]).includes(kind);

/** Stages that only machines without SFTP come to, and that only the others do. */
const BY_SHELL: readonly Stage[] = ["receive", "receive answers"];
const BY_SFTP: readonly Stage[] = [
  "guard",
  "guard runs",
  "create",
  "write",
  "close file",
  "end of sftp",
  "install",
  "install answers",
];

/** One thing that a peer does wrong in one attempt. */
export interface Misbehaviour {
  readonly stage: Stage;
  readonly kind: Kind;
  /** For stages that come more than once: after how many times, or bytes. */
  readonly after: number;
}

/** What a machine may do wrong in an attempt that moves so many bytes. */
export function planMisbehaviour(
  random: Random,
  { sftp, bytes }: { readonly sftp: boolean; readonly bytes: number },
): Misbehaviour {
  const others = sftp ? BY_SHELL : BY_SFTP;
  const stage = random.pick(
    (Object.keys(STAGES) as Stage[]).filter((name) => !others.includes(name)),
  );
  const kind: Kind = random.pick<Kind>(STAGES[stage]);
  return { stage, kind, after: afterHowMany(stage, bytes, random) };
}

function afterHowMany(stage: Stage, bytes: number, random: Random): number {
  switch (stage) {
    case "identification":
      return 1 + random.below(20);
    case "key exchange":
      return 25 + random.below(1000);
    case "so many bytes out":
      return random.below(6000);
    case "so many bytes in":
      return random.below(bytes + 5000);
    case "write":
      return random.below(Math.ceil(bytes / 32_768));
    case "channel":
      return random.below(4);
    default:
      return 0;
  }
}
