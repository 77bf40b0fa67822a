import type { Progress } from "../bmdb/machine-report.js";
import { type ProvidedRow, provideStatements } from "../bmdb/provide-machines.js";
import { describe } from "../errors.js";
import type { DemoOptions, DemoResult } from "./demo-run.js";
import { lookAround, type Surroundings } from "./look-around.js";
import { ProgressLine } from "./progress-line.js";
import { failedTable, startedTable, summary } from "./result-view.js";
import { inSeconds, type Screen, styled } from "./screen.js";

const NAME_WIDTH = 10;
const TEXT_WIDTH = 56;

/** What a demo says, from its title to its last line. */
export class DemoView {
  readonly #screen: Screen;
  #progress: ProgressLine | null = null;

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  title({ machines, workers }: DemoOptions): void {
    this.#lines([
      "",
      styled(
        this.#screen,
        "bold",
        `  A takeover of ${count(machines, "machine")} by ${count(workers, "worker")}`,
      ),
      styled(
        this.#screen,
        "dim",
        "  Real SSH, real agents, real Postgres; the machines are simulated.",
      ),
      "",
    ]);
  }

  /** A part of the stage is being set up. */
  begins(name: string): void {
    if (this.#screen.live) {
      this.#screen.write(`  ${name.padEnd(NAME_WIDTH)} ${styled(this.#screen, "dim", "starting")}`);
    }
  }

  stands(name: string, text: string, ms: number): void {
    const line = `  ${styled(this.#screen, "bold", name.padEnd(NAME_WIDTH))} ${text.padEnd(TEXT_WIDTH)} ${styled(this.#screen, "dim", inSeconds(ms).padStart(7))}`;
    this.#screen.write(this.#screen.live ? `\r${line}\x1b[K\n` : `${line}\n`);
  }

  /** The SQL that is about to be run: of each statement the first row stands for all. */
  insertion(rows: readonly ProvidedRow[]): void {
    const [example] = rows;
    if (example === undefined) {
      return;
    }
    const more = rows.length === 1 ? ";" : `, … and ${rows.length - 1} more;`;
    this.#lines([
      "",
      "  Plain SQL puts the machines into the database. A trigger does the rest:",
      "",
      ...provideStatements([example]).flatMap((statement) =>
        `${statement}${this.#screen.unicode ? more : more.replace("…", "...")}`
          .split("\n")
          .map((line) => styled(this.#screen, "cyan", `    ${line}`)),
      ),
      "",
    ]);
    this.#progress = new ProgressLine(this.#screen, rows.length);
  }

  progress(progress: Progress, elapsedMs: number): void {
    this.#progress?.show(progress, elapsedMs);
  }

  progressEnds(): void {
    this.#progress?.end();
    this.#progress = null;
  }

  result(result: DemoResult, { replicas }: Surroundings): void {
    this.#lines([
      "",
      ...startedTable(this.#screen, result, replicas),
      ...failedTable(this.#screen, result),
      ...summary(this.#screen, result, replicas),
      "",
    ]);
  }

  keep(result: DemoResult, surroundings: Surroundings): void {
    this.#lines([...lookAround(this.#screen, result, surroundings), ""]);
  }

  stopping({ reason }: AbortSignal): void {
    this.progressEnds();
    this.#lines(["", `  Stopping: ${describe(reason)}. Everything is taken down again.`]);
  }

  trouble(error: unknown): void {
    this.progressEnds();
    this.#lines([styled(this.#screen, "red", `  ${describe(error)}`)]);
  }

  #lines(lines: readonly string[]): void {
    this.#screen.write(`${lines.join("\n")}\n`);
  }
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
