import type { Progress } from "../bmdb/machine-report.js";
import { inSeconds, type Screen, type Style, styled } from "./screen.js";

const LONGEST_BAR = 30;
/** On a screen that cannot write over a line, one per so many milliseconds. */
const PLAIN_EVERY_MS = 1000;

/** How the machines of a bar are shown: told apart by letters, too, where there is no colour. */
const CELLS: readonly {
  of: keyof Progress | "waiting";
  style: Style;
  fine: string;
  plain: string;
}[] = [
  { of: "started", style: "green", fine: "█", plain: "#" },
  { of: "running", style: "cyan", fine: "▓", plain: ">" },
  { of: "failed", style: "yellow", fine: "▚", plain: "x" },
  { of: "waiting", style: "dim", fine: "░", plain: "." },
];

/** One line that tells how far the machines are, written over on a terminal, plain lines elsewhere. */
export class ProgressLine {
  readonly #screen: Screen;
  readonly #machines: number;
  #shown = false;
  #latest = { text: "", elapsedMs: 0 };
  #lastPlain = "";
  #lastPlainAt = Number.NEGATIVE_INFINITY;

  constructor(screen: Screen, machines: number) {
    this.#screen = screen;
    this.#machines = machines;
  }

  show(progress: Progress, elapsedMs: number): void {
    if (this.#screen.live) {
      this.#screen.write(`\r${this.#line(progress, elapsedMs)}\x1b[K`);
      this.#shown = true;
      return;
    }
    this.#latest = { text: this.#text(progress), elapsedMs };
    if (elapsedMs - this.#lastPlainAt >= PLAIN_EVERY_MS) {
      this.#lastPlainAt = elapsedMs;
      this.#writePlain();
    }
  }

  /** Leaves the line as it is, and goes on below. */
  end(): void {
    if (this.#shown) {
      this.#screen.write("\n");
      this.#shown = false;
    }
    this.#writePlain();
  }

  #writePlain(): void {
    const { text, elapsedMs } = this.#latest;
    if (text !== this.#lastPlain) {
      this.#lastPlain = text;
      this.#screen.write(`  ${text} (${inSeconds(elapsedMs)})\n`);
    }
  }

  #text({ started, running, failed }: Progress): string {
    const parts = [
      `${started} of ${this.#machines} taken over`,
      ...(failed > 0 ? [`${failed} failed`] : []),
      ...(running > 0 ? [`${running} running`] : []),
    ];
    return parts.join(", ");
  }

  #line(progress: Progress, elapsedMs: number): string {
    const text = `${this.#text(progress)}  ${inSeconds(elapsedMs)}`;
    const room = this.#screen.columns() - text.length - 5;
    return `  ${this.#bar(progress, Math.max(0, Math.min(LONGEST_BAR, room)))}  ${text}`;
  }

  #bar(progress: Progress, width: number): string {
    const { started, running, failed } = progress;
    const counts = { ...progress, waiting: this.#machines - started - running - failed };
    let sum = 0;
    return CELLS.map(({ of, style, fine, plain }) => {
      const from = Math.round((sum / this.#machines) * width);
      sum += counts[of];
      const to = Math.round((sum / this.#machines) * width);
      const cell = this.#screen.unicode ? fine : plain;
      return styled(this.#screen, style, cell.repeat(Math.max(0, to - from)));
    }).join("");
  }
}
