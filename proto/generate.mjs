// Writes takeover.js and takeover.d.ts from takeover.proto; with --check, says whether they are
// what it would write, so that CI can refuse code that was generated from another proto.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import pbjs from "protobufjs-cli/pbjs.js";
import pbts from "protobufjs-cli/pbts.js";

const here = import.meta.dirname;
const run = (tool, args) =>
  new Promise((resolve, reject) => {
    tool.main(args, (error, output) => (error ? reject(error) : resolve(output)));
  });

const folder = await mkdtemp(path.join(tmpdir(), "takeover-proto-"));
try {
  const script = path.join(folder, "takeover.js");
  await run(pbjs, [
    "--target=static-module",
    "--wrap=es6",
    "--dependency=protobufjs/minimal.js",
    "--no-create",
    "--no-verify",
    "--no-convert",
    "--no-delimited",
    "--no-service",
    "--force-number",
    `--out=${script}`,
    path.join(here, "takeover.proto"),
  ]);
  const types = path.join(folder, "takeover.d.ts");
  await run(pbts, [`--out=${types}`, script]);

  let stale = false;
  for (const file of [script, types]) {
    const fresh = await readFile(file, "utf8");
    const target = path.join(here, path.basename(file));
    if (!process.argv.includes("--check")) {
      await writeFile(target, fresh);
    } else if (fresh !== (await readFile(target, "utf8").catch(() => ""))) {
      stale = true;
      console.error(
        `proto/${path.basename(file)} does not fit proto/takeover.proto: run "npm run proto" and commit what it writes.`,
      );
    }
  }
  process.exitCode = stale ? 1 : 0;
} finally {
  await rm(folder, { recursive: true });
}
