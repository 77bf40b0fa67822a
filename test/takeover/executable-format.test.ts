import { describe, expect, it } from "vitest";
import {
  architectureConflict,
  executableFormat,
  readExecutableFormat,
} from "../../src/takeover/executable-format.js";

/** An ELF head: class (1: 32 bits, 2: 64), order (1: little, 2: big), machine, and a loader at offset 512. */
function elf(wide: boolean, little: boolean, machine: number, loader?: string): Buffer {
  const head = Buffer.alloc(1024);
  head.write("\x7fELF", "latin1");
  head[4] = wide ? 2 : 1;
  head[5] = little ? 1 : 2;
  const u16 = (at: number, value: number) =>
    little ? head.writeUInt16LE(value, at) : head.writeUInt16BE(value, at);
  const u32 = (at: number, value: number) =>
    little ? head.writeUInt32LE(value, at) : head.writeUInt32BE(value, at);
  const word = (at: number, value: number) => {
    if (!wide) {
      u32(at, value);
    } else if (little) {
      head.writeBigUInt64LE(BigInt(value), at);
    } else {
      head.writeBigUInt64BE(BigInt(value), at);
    }
  };
  u16(18, machine);
  word(wide ? 32 : 28, 128);
  u16(wide ? 54 : 42, 64);
  u16(wide ? 56 : 44, loader === undefined ? 1 : 2);
  u32(128, 1);
  if (loader !== undefined) {
    u32(192, 3);
    word(192 + (wide ? 8 : 4), 512);
    word(192 + (wide ? 32 : 16), loader.length + 1);
    head.write(`${loader}\0`, 512, "latin1");
  }
  return head;
}

describe("the format of an executable", () => {
  it.each([
    [true, true, 62],
    [true, false, 22],
    [false, true, 40],
    [false, false, 8],
  ])("is read from ELF of 64 bits: %s, little-endian: %s", (wide, little, machine) => {
    expect(executableFormat(elf(wide, little, machine, "/lib/ld.so"))).toEqual({
      kind: "elf",
      machine,
      loader: "/lib/ld.so",
    });
    expect(executableFormat(elf(wide, little, machine))).toEqual({
      kind: "elf",
      machine,
      loader: null,
    });
  });

  it("is read from a script's first line", () => {
    expect(executableFormat(Buffer.from("#! /usr/bin/env python3\nprint()"))).toEqual({
      kind: "script",
      interpreter: "/usr/bin/env",
    });
  });

  it.each(["", "x", "#", "\x7fELF", "\x7fELF".padEnd(64, "\xff")])("is none for %j", (head) => {
    expect(executableFormat(Buffer.from(head, "latin1"))).toEqual({ kind: "other" });
  });

  it("is that of this very process's program", async () => {
    expect((await readExecutableFormat(process.execPath)).kind).toBe("elf");
    expect(await readExecutableFormat("/nonexistent")).toEqual({ kind: "other" });
  });
});

describe("an architecture", () => {
  const arm64 = { kind: "elf", machine: 183, loader: null } as const;

  it("conflicts with another", () => {
    expect(architectureConflict(arm64, "x86_64", [])).toBe(
      "wrong architecture: the executable is for aarch64, the machine is x86_64",
    );
    expect(architectureConflict(arm64, "aarch64", [])).toBeUndefined();
  });

  it("may run what is older of its family, or what an emulator runs", () => {
    const i386 = { kind: "elf", machine: 3, loader: null } as const;
    expect(architectureConflict(i386, "x86_64", [])).toBeUndefined();
    expect(architectureConflict(arm64, "x86_64", ["register", "qemu-aarch64"])).toBeUndefined();
  });

  it("is not judged where one of the two is unknown", () => {
    expect(architectureConflict(arm64, "", [])).toBeUndefined();
    expect(
      architectureConflict({ kind: "elf", machine: 9999, loader: null }, "x86_64", []),
    ).toBeUndefined();
    expect(architectureConflict({ kind: "other" }, "x86_64", [])).toBeUndefined();
  });
});
