/** Where a demo shows itself, and how much that place can do. */
export interface Screen {
  write(text: string): void;
  /** Cells in a line. */
  columns(): number;
  /** Whether a line can be written over. */
  readonly live: boolean;
  readonly colour: boolean;
  /** Whether it shows more than ASCII. */
  readonly unicode: boolean;
}

/** What the environment says of a terminal: NO_COLOR (https://no-color.org), TERM, and the locale. */
export function screenFor(
  write: (text: string) => void,
  terminal: {
    readonly isTerminal: boolean;
    readonly columns: () => number;
    readonly environment: Readonly<Record<string, string | undefined>>;
  },
): Screen {
  const { environment, isTerminal, columns } = terminal;
  const live = isTerminal && environment.TERM !== "dumb";
  const locale = environment.LC_ALL || environment.LC_CTYPE || environment.LANG || "";
  return {
    write,
    columns,
    live,
    colour: live && !environment.NO_COLOR,
    unicode: /utf-?8/i.test(locale),
  };
}

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;
export type Style = keyof typeof CODES;

export function styled({ colour }: Screen, style: Style, text: string): string {
  return colour && text !== "" ? `\x1b[${CODES[style]}m${text}\x1b[0m` : text;
}

/** At most `width` cells of a text of plain letters. */
export function cut({ unicode }: Screen, text: string, width: number): string {
  const more = unicode ? "…" : "...";
  const letters = [...text].map((letter) => (unicode || letter <= "~" ? letter : "?"));
  return letters.length <= width
    ? letters.join("")
    : `${letters.slice(0, Math.max(0, width - more.length)).join("")}${more}`;
}

/** Seconds with one decimal: all that a person reads off a demo. */
export function inSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
