import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { PACKAGE_ROOT } from "../../src/config/package-root.js";
import { FAILURES } from "../../src/errors.js";

test("docs/failure-codes.md lists every code, in order, with its step and class, and no other", () => {
  const page = readFileSync(path.join(PACKAGE_ROOT, "docs", "failure-codes.md"), "utf8");
  let step = "";
  const listed: [string, { step: string; retryClass: string }][] = [];
  for (const line of page.split("\n")) {
    step = /^## (\w+):/.exec(line)?.[1] ?? step;
    const [, code, retryClass] =
      /^\| `(TAKEOVER_\w+)` \| (\w+) \| [^|]+ \| [^|]+ \|$/.exec(line) ?? [];
    if (code !== undefined && retryClass !== undefined) {
      listed.push([code, { step, retryClass }]);
    }
  }
  expect(listed).toEqual(Object.entries(FAILURES));
});
