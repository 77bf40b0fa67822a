import { printable } from "../errors.js";
import type { Connection, Ending } from "../ssh/connection.js";
import { type Limit, within } from "../ssh/deadline.js";
import { type FramedCommand, type Heard, runFramed } from "./framed-command.js";

/** Our scripts say little; more is not theirs. */
const LONGEST_OUTPUT = 64 * 1024;

/** How long a command may still run that says it will not do what it was asked, in milliseconds. */
const REFUSAL_GRACE_MS = 1000;

/** What cloud-init's forced command says in place of running ours; it then sleeps for ten seconds. */
const REFUSAL = /please log ?in as the user/i;

/** What a script of ours printed: lines of `name=value`, the last of a name counts; plus all of a name in order. */
export interface ScriptResult extends Heard {
  readonly ending: Ending;
  /** The machine said that this login is not for running commands. */
  readonly refused: boolean;
  get(name: string): string | undefined;
  all(name: string): readonly string[];
}

/**
 * Runs a script of ours to its end and reads its answer.
 *
 * @throws ConnectionLost where the connection goes meanwhile, ChannelRefused, and what `limit` says
 */
export async function runScript(
  connection: Connection,
  script: string,
  parameters: readonly string[],
  limit: Limit,
  feed?: (command: FramedCommand) => Promise<void>,
): Promise<ScriptResult> {
  let output = Buffer.alloc(0);
  const keep = (chunk: Buffer): void => {
    output = output.length < LONGEST_OUTPUT ? Buffer.concat([output, chunk]) : output;
  };
  const refusal = refusalWatch();
  const command = await runFramed(
    connection,
    script,
    parameters,
    { output: keep, preamble: refusal.hear },
    limit,
  );
  try {
    if (feed === undefined) {
      command.running.end();
    } else {
      await feed(command);
    }
    const ending = await within(limit, Promise.race([command.ended, refusal.sure]));
    if (ending.how === "lost") {
      throw ending.error;
    }
    const heard = command.heard();
    return answer(output.toString("utf8"), ending, heard);
  } finally {
    refusal.stop();
    command.running.close();
  }
}

function refusalWatch() {
  let timer: NodeJS.Timeout | undefined;
  let tell: (ending: Ending) => void;
  const sure = new Promise<Ending>((resolve) => {
    tell = resolve;
  });
  return {
    sure,
    hear(text: string, started: boolean): void {
      if (started) {
        clearTimeout(timer);
      } else if (timer === undefined && REFUSAL.test(text)) {
        timer = setTimeout(() => tell({ how: "closed" }), REFUSAL_GRACE_MS);
      }
    },
    stop: () => clearTimeout(timer),
  };
}

function answer(output: string, ending: Ending, heard: Heard): ScriptResult {
  const lines = output
    .split("\n")
    .map((line) => /^([a-z]+)=(.*)$/.exec(line))
    .filter((match) => match !== null)
    .map((match) => [match[1], printable(match[2] ?? "", 500)] as const);
  const all = (name: string) => lines.filter(([key]) => key === name).map(([, value]) => value);
  return {
    ...heard,
    ending,
    refused: !heard.started && REFUSAL.test(heard.preamble),
    all,
    get: (name) => all(name).at(-1),
  };
}
