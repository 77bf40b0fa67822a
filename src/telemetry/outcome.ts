/** How an attempt, or a job that did not get to be one, ended. */
export const OUTCOMES = [
  "started",
  "already_started",
  "not_eligible",
  "conflict",
  "failed",
  "snoozed",
  "canceled",
] as const;
export type Outcome = (typeof OUTCOMES)[number];
