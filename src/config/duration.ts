import { BadValue } from "./bad-value.js";

/** The longest wait that setTimeout takes; a longer one fires at once. About 24.8 days. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** For spans that are not waited for but computed with, such as how long history is kept. */
export const LONGEST_SPAN_MS = 100 * 365 * 86_400_000;

const FORM = /^(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?$/;
const UNITS_MS = [86_400_000, 3_600_000, 60_000, 1000, 1];
const REMEDY = "write it like 250ms, 2s, 1m30s, 36h or 90d";

/**
 * A duration such as `250ms`, `2s`, `1m30s`, `36h` or `90d`, largest unit first, in milliseconds: more
 * than zero and at most `longestMs`. Throws BadValue.
 */
export function parseDuration(text: string, longestMs = LONGEST_TIMER_MS): number {
  const parts = FORM.exec(text)?.slice(1);
  if (parts === undefined || text === "") {
    throw new BadValue(/^\d+$/.test(text) ? "has no unit" : "is not a duration", REMEDY);
  }
  const ms = parts.reduce(
    (sum, part, index) => sum + Number(part ?? 0) * (UNITS_MS[index] ?? 0),
    0,
  );
  if (ms === 0) {
    throw new BadValue("is zero", "give a duration above zero");
  }
  if (ms > longestMs) {
    throw new BadValue("is too long", `give at most ${formatDuration(longestMs)}`);
  }
  return ms;
}

/** Milliseconds in the same notation, the two largest units, rounded down: for messages. */
export function formatDuration(ms: number): string {
  const names = ["d", "h", "m", "s", "ms"];
  let rest = ms;
  const parts = UNITS_MS.map((unit, index) => {
    const amount = Math.floor(rest / unit);
    rest -= amount * unit;
    return amount === 0 ? "" : `${amount}${names[index]}`;
  }).filter((part) => part !== "");
  return parts.slice(0, 2).join("") || "0ms";
}
