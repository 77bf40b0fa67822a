import type { Providers } from "./provider.js";
import { staticProvider } from "./static.js";

/** Whose machines this program can find. */
export const PROVIDERS: Providers = new Map([["static", staticProvider]]);
