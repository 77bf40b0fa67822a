import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(import.meta.url);

/** Where package.json lies, for the files that are not compiled: the same from `src` and from `dist`. */
export const PACKAGE_ROOT = path.dirname(require.resolve("#package.json"));

/** This program's version, as in package.json. */
export const VERSION: string = require("#package.json").version;
