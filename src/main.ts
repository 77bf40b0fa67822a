#!/usr/bin/env node
import { run } from "./cli/program.js";
import { processTerminal } from "./cli/terminal.js";

// node-pg-migrate loads jiti, which makes an empty cache folder wherever TMPDIR is; see src/worker/migrate.ts.
process.env.JITI_FS_CACHE ??= "false";

const code = await run(process.argv.slice(2), processTerminal());
// The end is here and now, whatever a library left open: whoever stopped a worker waits for it. What was
// written to a pipe or a file is out already; on POSIX systems such writes are synchronous.
process.exit(process.exitCode ?? code);
