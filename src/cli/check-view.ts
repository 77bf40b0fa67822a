import { type Screen, type Style, styled } from "../demo/screen.js";
import { type Finding, SUBJECTS } from "../takeover/check-findings.js";

const VERDICTS = {
  ok: { word: "ok", style: "green" },
  note: { word: "note", style: "yellow" },
  fail: { word: "FAIL", style: "red" },
  unchecked: { word: "-", style: "dim" },
} as const satisfies Record<Finding["verdict"], { word: string; style: Style }>;

const WORD_WIDTH = 6;
const SUBJECT_WIDTH = Math.max(...SUBJECTS.map((subject) => subject.length)) + 2;

/**
 * A finding as its line. On a terminal what is too long goes on below, in its column; elsewhere a finding is
 * one line, for programs that read it.
 */
export function findingLine(screen: Screen, { verdict, subject, text, code }: Finding): string {
  const { word, style } = VERDICTS[verdict];
  const indent = WORD_WIDTH + SUBJECT_WIDTH;
  const lines = wrapped(screen, code === null ? text : `${code}: ${text}`, indent);
  const head = styled(screen, style, word) + " ".repeat(WORD_WIDTH - word.length);
  return head + subject.padEnd(SUBJECT_WIDTH) + lines.join(`\n${" ".repeat(indent)}`);
}

/** Whether a takeover would be tried, and succeed, in a sentence. */
export function verdictLine(screen: Screen, findings: readonly Finding[]): string {
  const [style, sentence] = verdictOn(findings);
  return styled(screen, style, wrapped(screen, sentence, 0).join("\n"));
}

function verdictOn(findings: readonly Finding[]): [Style, string] {
  const failures = findings.filter(({ verdict }) => verdict === "fail");
  const [first] = failures.filter(({ subject }) => subject !== "record");
  const failing = first && (first.code ? `fail with ${first.code}` : "be put off");
  if (failures.some(({ subject }) => subject === "record")) {
    const also = failing === undefined ? "" : `, and it would ${failing}`;
    return ["red", `No takeover would be tried${also}.`];
  }
  return failing === undefined
    ? ["green", "A takeover would succeed, as far as can be told without running the agent."]
    : ["red", `A takeover would ${failing}; docs/failure-codes.md says what to do.`];
}

/** Words in lines that end before the screen does; a longer word has a line of its own. */
function wrapped(screen: Screen, text: string, indent: number): string[] {
  const width = screen.columns() - 1 - indent;
  if (!screen.live) {
    return [text];
  }
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const line = lines.at(-1);
    if (line !== undefined && line.length + 1 + word.length <= width) {
      lines[lines.length - 1] = `${line} ${word}`;
    } else {
      lines.push(word);
    }
  }
  return lines;
}
