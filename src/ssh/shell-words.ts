/**
 * Command lines for a login shell that is not known beforehand. sh, dash, bash, csh, tcsh and fish agree on
 * little: they agree on words between single quotes without `'`, `\`, `!` and line ends, and on a backslash
 * outside quotes. So a script of ours is one such word given to `/bin/sh -c`, and what varies comes after it
 * as its arguments.
 */

/**
 * One word that every shell reads as `text`.
 *
 * @throws RangeError for control characters: csh cannot quote a line end, and no path of ours has one
 */
export function quoted(text: string): string {
  if (/\p{Cc}/u.test(text)) {
    throw new RangeError("a control character cannot be quoted alike for every shell");
  }
  // csh reads `!` even between single quotes, fish reads `\` there: both go outside them, escaped.
  return `'${text.replace(/['\\!]/g, (character) => `'\\${character}'`)}'`;
}

/** `/bin/sh` running `script` with `parameters` as $1, $2, …: read alike by every login shell. */
export function shellCommand(script: string, parameters: readonly string[]): string {
  if (/['\\!\n]/.test(script)) {
    throw new RangeError("a script must do without ' \\ ! and line ends");
  }
  return ["exec /bin/sh -c", quoted(script), "sh", ...parameters.map(quoted)].join(" ");
}
