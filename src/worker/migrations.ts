import { readdir } from "node:fs/promises";
import path from "node:path";
import { PACKAGE_ROOT } from "../config/package-root.js";

export const MIGRATIONS_FOLDER = path.join(PACKAGE_ROOT, "migrations");

/** The names of our migrations, in order, without `.sql`: as they stand in `bmdb.migrations`. */
export async function knownMigrations(): Promise<string[]> {
  const files = await readdir(MIGRATIONS_FOLDER);
  return files
    .filter((file) => file.endsWith(".sql"))
    .map((file) => file.slice(0, -".sql".length))
    .sort();
}

/** The level of graphile-worker's schema that this program was written for: 0.17.3's own. */
export const QUEUE_SCHEMA_LEVEL = 19;
