import { describe, expect, test } from "vitest";
import { ProgressLine } from "../../src/demo/progress-line.js";
import { type Screen, screenFor } from "../../src/demo/screen.js";
import { table } from "../../src/demo/table.js";

function screen(environment: Record<string, string>, isTerminal = true, columns = 80) {
  const written: string[] = [];
  const it: Screen = screenFor((text) => written.push(text), {
    isTerminal,
    columns: () => columns,
    environment,
  });
  return { it, text: () => written.join("") };
}

const UTF8 = { TERM: "xterm", LANG: "C.UTF-8" };

function progressOn(place: ReturnType<typeof screen>): string {
  const line = new ProgressLine(place.it, 200);
  line.show({ started: 0, running: 30, failed: 0 }, 0);
  line.show({ started: 7, running: 30, failed: 1 }, 400);
  line.show({ started: 190, running: 0, failed: 10 }, 12_345);
  line.end();
  return place.text();
}

describe("the progress", () => {
  test("is one line that is written over on a terminal, in colour, within 80 columns", () => {
    const text = progressOn(screen(UTF8));
    expect(text).toContain("\x1b[32m");
    const lines = text.split("\r").filter(Boolean);
    expect(lines).toHaveLength(3);
    for (const line of lines) {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the colours' own escapes
      expect(line.replace(/\x1b\[[0-9;]*[mK]|\n/g, "").length).toBeLessThan(80);
    }
    expect(lines.at(-1)).toContain("190 of 200 taken over, 10 failed");
    expect(text.endsWith("\n")).toBe(true);
  });

  test("has no colour under NO_COLOR, and tells the machines apart all the same", () => {
    const text = progressOn(screen({ ...UTF8, NO_COLOR: "1" }));
    expect(text).not.toContain("\x1b[3");
    expect(text).toMatch(/█.*▚/);
  });

  test("is plain ASCII where the locale has no more", () => {
    expect(progressOn(screen({ TERM: "xterm", NO_COLOR: "1" }))).toMatch(/^\p{ASCII}*$/u);
  });

  test.each([
    ["a dumb terminal", screen({ ...UTF8, TERM: "dumb" })],
    ["a pipe", screen(UTF8, false)],
  ])("is a plain line a second at most on %s, and the last one is not left out", (_name, place) => {
    expect(progressOn(place)).toBe(
      "  0 of 200 taken over, 30 running (0.0 s)\n  190 of 200 taken over, 10 failed (12.3 s)\n",
    );
  });
});

describe("a table", () => {
  const columns = [
    { title: "name", align: "left" },
    { title: "n", align: "right" },
  ] as const;

  test("is as wide as its content", () => {
    const place = screen({ ...UTF8, NO_COLOR: "1" });
    expect(
      table(place.it, columns, [
        ["a", "1"],
        ["longer", "100"],
      ]),
    ).toEqual(["  name      n", "  a         1", "  longer  100"]);
  });

  test("is cut off at the screen's edge", () => {
    const place = screen({ ...UTF8, NO_COLOR: "1" }, true, 12);
    expect(table(place.it, columns, [["longer", "100"]])[1]).toBe("  longer  …");
  });
});
