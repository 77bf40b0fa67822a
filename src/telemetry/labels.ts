/** The closed sets that metric labels are taken from, beside outcomes, steps and failure codes. */

/**
 * What became of a machine's host key: `new` – the first one, to be recorded; `matched` – the one that
 * was expected; `unchecked` – taken under `insecure`; `changed`, `missing` – refused.
 */
export const HOST_KEY_DECISIONS = ["new", "matched", "unchecked", "changed", "missing"] as const;
export type HostKeyDecision = (typeof HOST_KEY_DECISIONS)[number];

export const UPLOAD_RESULTS = ["sent", "skipped"] as const;

const OTHER_PROVIDER = "other";

/** The provider label: a configured name, or one word for all others. */
export function labelSets(configured: readonly string[]) {
  const known = new Set(configured);
  return {
    providers: [...known, OTHER_PROVIDER],
    provider: (name: string) => (known.has(name) ? name : OTHER_PROVIDER),
  };
}
