import { describe, expect, it } from "vitest";
import { report } from "../../src/cli/report.js";
import { ConfigurationFaults, DatabaseUnusable } from "../../src/config/exit.js";

function told(error: unknown, debug = false) {
  let text = "";
  const terminal = {
    environment: {},
    out: () => {},
    err: (more: string) => {
      text += more;
    },
    outIsTerminal: false,
  };
  return { code: report(error, terminal, debug), text };
}

describe("the end of a command", () => {
  it("is 2 with a line per fault of its configuration", () => {
    expect(told(new ConfigurationFaults(["--a: bad.", "--b: bad."]))).toEqual({
      code: 2,
      text: "takeover: --a: bad.\ntakeover: --b: bad.\n",
    });
  });

  it("is 3 with one sentence where the database cannot serve", () => {
    const error = new DatabaseUnusable("the schema is old; run `takeover migrate`", {
      cause: new Error("noise"),
    });
    expect(told(error)).toEqual({
      code: 3,
      text: "takeover: the schema is old; run `takeover migrate`\n",
    });
  });

  it("is 1 with one line for what nobody foresaw, and a stack for whoever wants details", () => {
    const error = new Error("postgres://u:hunter2@db/x\nis gone");
    expect(told(error)).toEqual({
      code: 1,
      text: "takeover: unexpected error: postgres://u:[redacted]@db/x is gone\n",
    });
    expect(told(error, true).text).toContain("report.test.ts");
  });
});
