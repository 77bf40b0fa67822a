import { describe, expect, it } from "vitest";
import {
  aboutExecution,
  aboutProcessor,
  aboutSpace,
  aboutTarget,
} from "../../src/takeover/check-findings.js";

/** What a machine answered, beside the start-up text of its shell. */
const facts = (answers: Record<string, string>) => ({
  get: (name: string) => answers[name],
  all: (name: string) => (answers[name] === undefined ? [] : [answers[name]]),
  preamble: "",
  preambleBytes: 0,
});

const wanted = {
  executable: { path: "/agent", size: 100 * 1024, sha256: "" },
  targetPath: "/opt/agent",
  format: { kind: "elf", machine: 62, loader: null },
} as const;

/** Cases that a test's own machine can hardly be brought into. */
describe("of a machine's answers, a check makes that", () => {
  const folder = { folder: "/opt", isfolder: "yes", complete: "yes" };

  it("a folder which the user may not write is not written", () => {
    expect(aboutTarget(facts(folder), wanted)).toMatchObject({
      verdict: "fail",
      code: "TAKEOVER_UPLOAD_FAILED",
      text: "/opt/agent cannot be written: no permission to write there (/opt)",
    });
    expect(aboutTarget(facts({ ...folder, writable: "yes" }), wanted).verdict).toBe("ok");
  });

  it.each([
    ["rw,relatime,rw,errors=remount-ro", "ok"],
    ["rw,relatime,ro,errors=remount-ro", "fail"],
    ["ro,relatime,rw", "fail"],
  ])("a mount of %s is %s", (mount, verdict) => {
    expect(aboutTarget(facts({ ...folder, writable: "yes", mount }), wanted).verdict).toBe(verdict);
  });

  it.each([
    ["--------------e-------", "ok"],
    ["--------A----I-e-------", "ok"],
    ["----i---------e-------", "fail"],
    ["-----a--------e-------", "fail"],
  ])("attributes %s are %s, also where a shell takes root for almighty", (attributes, verdict) => {
    const answers = { ...folder, writable: "yes", attributes };
    expect(aboutTarget(facts(answers), wanted).verdict).toBe(verdict);
  });

  it("blocks reserved for root are room for root alone", () => {
    const free = "/dev/my disk 1000 890 50 95% /opt";
    expect(aboutSpace(facts({ free, uid: "0" }), wanted)).toMatchObject({
      verdict: "note",
      text: "100 KiB needed, 50 KiB free, and 110 KiB with what is reserved for root",
    });
    expect(aboutSpace(facts({ free, uid: "1000" }), wanted)).toMatchObject({
      verdict: "fail",
      text: "the disk is full (50 KiB free, 100 KiB needed)",
    });
  });

  it("a file system without a number of inodes is not out of them", () => {
    const answers = { free: "none 1000 0 1000 0% /", inodes: "none 0 0 0 - /" };
    expect(aboutSpace(facts(answers), wanted).verdict).toBe("ok");
  });

  it("an emulator runs what the processor cannot", () => {
    const arm = facts({ arch: "aarch64" });
    expect(aboutProcessor(arm, wanted).code).toBe("TAKEOVER_UPLOAD_WRONG_ARCHITECTURE");
    const emulated = facts({ arch: "aarch64", binfmt: "qemu-x86_64" });
    expect(aboutProcessor(emulated, wanted).verdict).toBe("ok");
  });

  it("what the machine does not tell is not said to be well", () => {
    expect(aboutProcessor(facts({}), wanted).verdict).toBe("note");
    expect(aboutSpace(facts({}), wanted).verdict).toBe("note");
    expect(aboutExecution(facts({ loader: "yes" }), wanted).verdict).toBe("note");
  });
});
