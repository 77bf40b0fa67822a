import { openExecutable } from "./agent-executable.js";

/** What kind of program a file is, as far as its beginning tells. */
export type ExecutableFormat =
  | { readonly kind: "elf"; readonly machine: number; readonly loader: string | null }
  | { readonly kind: "script"; readonly interpreter: string }
  | { readonly kind: "other" };

/** Enough for the headers of every linker's output that names a loader. */
const HEAD_BYTES = 8192;
const PROGRAM_INTERPRETER = 3;

/** ELF's machine numbers, and the names `uname -m` has for what runs them. */
const ARCHITECTURES: Readonly<Record<number, { name: string; runsOn: RegExp }>> = {
  3: { name: "i386", runsOn: /^(i[3-6]86|x86_64|amd64)$/ },
  8: { name: "mips", runsOn: /^mips/ },
  21: { name: "ppc64", runsOn: /^ppc64/ },
  22: { name: "s390x", runsOn: /^s390/ },
  40: { name: "arm", runsOn: /^(arm|aarch64|armv)/ },
  62: { name: "x86_64", runsOn: /^(x86_64|amd64)$/ },
  183: { name: "aarch64", runsOn: /^(aarch64|arm64)/ },
  243: { name: "riscv64", runsOn: /^riscv/ },
  258: { name: "loongarch64", runsOn: /^loongarch/ },
};

/** Reads the beginning of a local file. Never rejects: what cannot be read is of no known format. */
export async function readExecutableFormat(path: string): Promise<ExecutableFormat> {
  try {
    const file = await openExecutable(path);
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
      return executableFormat(buffer.subarray(0, bytesRead));
    } finally {
      await file.close();
    }
  } catch {
    return { kind: "other" }; // The transfer reads the file too, and tells what is wrong with it.
  }
}

/** The format of a file that begins so: ELF by its header (System V ABI, chapter 4), scripts by `#!`. */
export function executableFormat(head: Buffer): ExecutableFormat {
  if (head.subarray(0, 2).toString("latin1") === "#!") {
    const line = head.toString("utf8", 2).split("\n", 1)[0] ?? "";
    return { kind: "script", interpreter: line.trim().split(/\s+/)[0] ?? "" };
  }
  if (head.length < 64 || head.readUInt32BE(0) !== 0x7f454c46) {
    return { kind: "other" };
  }
  try {
    return { kind: "elf", machine: uint16(head, 18), loader: loaderOf(head) };
  } catch {
    return { kind: "other" }; // Offsets beyond what was read: headers nobody writes.
  }
}

const is64Bit = (head: Buffer): boolean => head[4] === 2;
const isLittleEndian = (head: Buffer): boolean => head[5] === 1;

function uint16(head: Buffer, at: number): number {
  return isLittleEndian(head) ? head.readUInt16LE(at) : head.readUInt16BE(at);
}

/** An address-sized number: 8 bytes in 64-bit files, 4 in others. */
function word(head: Buffer, at: number): number {
  if (!is64Bit(head)) {
    return isLittleEndian(head) ? head.readUInt32LE(at) : head.readUInt32BE(at);
  }
  return Number(isLittleEndian(head) ? head.readBigUInt64LE(at) : head.readBigUInt64BE(at));
}

function loaderOf(head: Buffer): string | null {
  const wide = is64Bit(head);
  const table = word(head, wide ? 32 : 28);
  const entrySize = uint16(head, wide ? 54 : 42);
  const entries = uint16(head, wide ? 56 : 44);
  for (let index = 0; index < entries; index++) {
    const entry = table + index * entrySize;
    const type = isLittleEndian(head) ? head.readUInt32LE(entry) : head.readUInt32BE(entry);
    if (type === PROGRAM_INTERPRETER) {
      const start = word(head, entry + (wide ? 8 : 4));
      const size = word(head, entry + (wide ? 32 : 16));
      return start + size <= head.length
        ? head.toString("latin1", start, start + size).replace(/\0.*$/s, "")
        : null;
    }
  }
  return null;
}

/**
 * Why a machine cannot run the executable, or undefined where it may. Must be known before it is run: a
 * shell takes a file that the kernel refuses for a script, and would read its machine code as commands.
 *
 * @param architecture what `uname -m` says there
 * @param interpreters what is registered in its binfmt_misc: an emulator may run what the processor cannot
 */
export function architectureConflict(
  format: ExecutableFormat,
  architecture: string,
  interpreters: readonly string[],
): string | undefined {
  const wanted = format.kind === "elf" ? ARCHITECTURES[format.machine] : undefined;
  const emulated = interpreters.some((name) => /qemu|box64|fex|rosetta/i.test(name));
  if (wanted === undefined || architecture === "" || emulated || wanted.runsOn.test(architecture)) {
    return undefined;
  }
  return `wrong architecture: the executable is for ${wanted.name}, the machine is ${architecture}`;
}
