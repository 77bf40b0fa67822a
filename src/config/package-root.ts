import { createRequire } from "node:module";
import path from "node:path";

/** Where package.json lies, for the files that are not compiled: the same from `src` and from `dist`. */
export const PACKAGE_ROOT = path.dirname(createRequire(import.meta.url).resolve("#package.json"));
