import { cut, type Screen, styled } from "./screen.js";

export interface Column {
  readonly title: string;
  readonly align: "left" | "right";
}

const INDENT = "  ";
const GAP = "  ";

/** Lines of a table, its heads dim, each as wide as its content; what is too wide for the screen is cut off. */
export function table(
  screen: Screen,
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
): string[] {
  const widths = columns.map(({ title }, index) =>
    Math.max(title.length, ...rows.map((row) => row[index]?.length ?? 0)),
  );
  const line = (cells: readonly string[]): string => {
    const padded = columns.map(({ align }, index) => {
      const cell = cells[index] ?? "";
      const width = widths[index] ?? 0;
      return align === "left" ? cell.padEnd(width) : cell.padStart(width);
    });
    return cut(screen, (INDENT + padded.join(GAP)).trimEnd(), screen.columns() - 1);
  };
  return [styled(screen, "dim", line(columns.map(({ title }) => title))), ...rows.map(line)];
}
