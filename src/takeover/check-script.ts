import { LOADER, MOUNT } from "./not-executable.js";
import { FACTS, FREE, HASH } from "./upload-scripts.js";

/** What an upload calls on the machine; `mkdir` and `cat` not always. */
export const TOOLS = ["wc", "chmod", "mv", "mkdir", "cat"] as const;

/**
 * What a takeover would meet on the machine, found out without writing anything there. $1 target, $2 size,
 * $3 SHA-256, $4 "loader:" and the executable's loader: simulated machines lead a bare path into their folder, and
 * their programs are this computer's. $d is the target's folder, or the nearest one above it that is there:
 * an upload makes the rest.
 */
export const INSPECT = [
  "LC_ALL=C; export LC_ALL",
  HASH,
  FACTS,
  `for t in ${TOOLS.join(" ")}; do command -v "$t" >/dev/null 2>&1 || echo "lack=$t"; done`,
  `[ -n "$(h </dev/null 2>/dev/null)" ] && echo hashes=yes`,
  `l=\${4#loader:}`,
  LOADER,
  `echo "uid=$(id -u 2>/dev/null)"`,
  `d=\${1%/*}`,
  `[ -d "\${d:-/}" ] && echo complete=yes`,
  `until [ -z "$d" ] || [ -e "$d" ] || [ -L "$d" ]; do d=\${d%/*}; done`,
  `d=\${d:-/}`,
  `printf "folder=%s" "$d"; echo`,
  `[ -d "$d" ] && echo isfolder=yes`,
  `[ -w "$d" ] && [ -x "$d" ] && echo writable=yes`,
  // The test above says yes to everything for root in some shells, and does not know of append-only folders.
  `lsattr -d "$d" "$1" 2>/dev/null | while read -r a x; do echo "attributes=$a"; done`,
  // Nothing can be moved onto a mount.
  `(while read -r n i v r p x; do if [ "$p" = "$1" ]; then echo busy=yes; fi; done </proc/self/mountinfo) 2>/dev/null`,
  FREE,
  `echo "inodes=$(df -P -i "$d" 2>/dev/null | tail -n 1)"`,
  MOUNT,
  "echo inspected=yes",
].join("; ");
