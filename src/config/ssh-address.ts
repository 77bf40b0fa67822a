import { isIP } from "node:net";
import { BadValue } from "./bad-value.js";

/** Where an SSH server listens; port null where none was given. */
export interface SshAddress {
  /** An IP literal, without brackets. */
  readonly address: string;
  readonly port: number | null;
}

const LAST_PORT = 65_535;

/** `10.0.7.12`, `10.0.7.12:2222`, `2001:db8::7`, `[2001:db8::7]:2222`. Throws BadValue. */
export function sshAddress(text: string): SshAddress {
  if (isIP(text) !== 0) {
    return { address: text, port: null };
  }
  const [, six, four, port] = /^(?:\[([^[\]]*)\]|([^:]*))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const number = port === undefined ? null : Number(port);
  const sound = isIP(four ?? "") === 4 || isIP(six ?? "") === 6;
  if (!sound || number === 0 || (number ?? 1) > LAST_PORT) {
    throw new BadValue(
      "is not an IP address with or without a port",
      "give one such as 10.0.7.12, 10.0.7.12:2222 or [2001:db8::7]:2222; names are not looked up",
    );
  }
  return { address: six ?? four ?? "", port: number };
}
