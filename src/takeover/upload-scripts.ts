/**
 * The scripts an upload runs on the machine, for any POSIX /bin/sh and whatever tools it has. They stand
 * between single quotes of an unknown shell, so they do without ' \ ! and line ends. Each answers in lines
 * of `name=value`.
 */

/** `h`: the SHA-256 of standard input somewhere in its output, or nothing where the machine has no tool for it. */
export const HASH = [
  "h() { if command -v sha256sum >/dev/null 2>&1; then sha256sum",
  "elif command -v openssl >/dev/null 2>&1; then openssl dgst -sha256",
  "elif command -v busybox >/dev/null 2>&1; then busybox sha256sum",
  "elif command -v shasum >/dev/null 2>&1; then shasum -a 256",
  "elif command -v sha256 >/dev/null 2>&1; then sha256 -q; fi; }",
].join("; ");

/** What an upload has to know beforehand; $1 target, $2 size, $3 SHA-256. Wants HASH, and changes nothing. */
export const FACTS = [
  `echo "arch=$(uname -m 2>/dev/null)"`,
  `for f in /proc/sys/fs/binfmt_misc/*; do echo "binfmt=\${f##*/}"; done`,
  `if [ -d "$1" ]; then echo isdir=yes; fi`,
  `if [ -f "$1" ] && [ -x "$1" ] && [ "$(wc -c <"$1")" -eq "$2" ]; then case "$(h <"$1" 2>/dev/null)" in *"$3"*) echo there=yes;; esac; fi`,
].join("; ");

/** `free`: what `df` says of the folder $d, in blocks of 1024 bytes. */
export const FREE = `echo "free=$(df -P -k "$d" 2>/dev/null | tail -n 1)"`;

/** $1 target, $2 size, $3 SHA-256, $4 what all temporary names of this machine begin with. Makes the folder. */
export const PREPARE = [
  "LC_ALL=C; export LC_ALL",
  HASH,
  // Left by an attempt that lost its connection; no other attempt for this machine can be running.
  `rm -f "$4".*`,
  FACTS,
  `d=\${1%/*}`,
  `[ -d "\${d:-/}" ] || (umask 077; mkdir -p "$d")`,
  "echo prepared=yes",
].join("; ");

/**
 * After the transfer; $1 temporary file, $2 target, $3 size, $4 SHA-256 or "-" where it was checked already.
 * The file is removed wherever it is not moved, before anything is said: there may be nobody left to hear it.
 */
export const INSTALL = [
  "LC_ALL=C; export LC_ALL",
  HASH,
  `no() { rm -f "$f"; echo "$1"; exit 0; }`,
  `f=$1; [ -f "$f" ] || no denied=yes`,
  `n=$(wc -c <"$f"); n=\${n:-0}`,
  `[ "$n" -eq "$3" ] || no "size=$n"`,
  `if [ "$4" = - ]; then :; else s=$(h <"$f" 2>/dev/null); if [ -z "$s" ]; then echo nohash=yes; exit 0; fi; case "$s" in *"$4"*) ;; *) no "hash=$s";; esac; fi`,
  // Into a directory mv would move, not replace.
  `if [ -d "$2" ]; then no isdir=yes; fi`,
  `chmod 0755 "$f" && mv -f "$f" "$2" || no "denied=yes"`,
  "echo placed=yes",
].join("; ");

/** The same, with the file coming on standard input; created anew (`set -C`), owner-only. */
export const RECEIVE = [
  "umask 077; set -C",
  `if cat >"$1"; then :; else rm -f "$1"; echo denied=yes; exit 0; fi`,
  "set +C",
  INSTALL,
].join("; ");

/** $1: the file comes back on standard output, to be hashed here. */
export const READ_BACK = `exec cat "$1"`;

/** What a guard is told on its standard input when the transfer begins, and when the upload is over. */
export const GUARD_BEGIN = "begin";
export const GUARD_OVER = "over";

/**
 * $1: a temporary file, removed when standard input says that the upload is over, or ends because the
 * connection has gone. Then a request to create the file may still be on its way through the SFTP server, which
 * is another process: so once more, a second later. A guard that never heard of a beginning removes nothing: it
 * was given up, or its input is none.
 */
export const GUARD = [
  `trap "" HUP`,
  `read -r said; [ "$said" = ${GUARD_BEGIN} ] || exit 0`,
  "read -r said",
  `rm -f "$1"`,
  `[ "$said" = ${GUARD_OVER} ] || { sleep 1; rm -f "$1"; }`,
].join("; ");

export const REMOVE = `rm -f "$1"`;

/** $1 target, $2 a name beside it: why nothing can be written there. */
export const EXPLAIN = [
  "LC_ALL=C; export LC_ALL",
  `d=\${1%/*}; d=\${d:-/}`,
  FREE,
  `echo "made=$( (umask 077; mkdir -p "$d") 2>&1 | tail -n 1)"`,
  `echo "probe=$( (umask 077; echo probe >"$2") 2>&1 | tail -n 1)"`,
  `rm -f "$2"`,
  `echo "folder=$(ls -ld "$d" 2>&1)"`,
].join("; ");
