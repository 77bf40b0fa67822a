import { createRequire } from "node:module";

/**
 * This program's version, from its package.json. Not by an import: the compiler would copy that file into
 * its output, where it would be taken for the package's own and its other paths would lead nowhere.
 */
export function programVersion(): string {
  const { version }: { version: string } = createRequire(import.meta.url)("#package.json");
  return version;
}
