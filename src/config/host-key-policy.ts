/**
 * What a worker makes of the host key a machine shows:
 * `accept-new` – record the first one, refuse another later; `pinned` – one must be known before;
 * `insecure` – take any.
 */
export const HOST_KEY_POLICIES = ["accept-new", "pinned", "insecure"] as const;
export type HostKeyPolicy = (typeof HOST_KEY_POLICIES)[number];
