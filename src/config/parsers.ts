import { isIP } from "node:net";
import { BadValue } from "./bad-value.js";

/** Checks of single values. Each returns the value or throws BadValue. */

/** A whole number within bounds. */
export const wholeNumber = (least: number, most: number) => (text: string) => {
  const number = Number(text);
  if (!/^\d{1,9}$/.test(text)) {
    throw new BadValue("is not a whole number", `give one from ${least} to ${most}`);
  }
  if (number < least || number > most) {
    throw new BadValue("is out of range", `give a number from ${least} to ${most}`);
  }
  return number;
};

/** One of a few words. */
export const oneOf =
  <const Word extends string>(noun: string, words: readonly Word[]) =>
  (text: string): Word => {
    const word = words.find((candidate) => candidate === text);
    if (word === undefined) {
      throw new BadValue(`is not ${noun}`, `choose one of ${words.join(", ")}`);
    }
    return word;
  };

/** Any text on one line: not empty, bounded, no control characters. */
export const line = (longest: number) => (text: string) => {
  if (text.trim() === "") {
    throw new BadValue("is empty", "give a value");
  }
  if (/\p{Cc}/u.test(text)) {
    throw new BadValue("has a control character in it", "remove line breaks, tabs and the like");
  }
  if (Buffer.byteLength(text) > longest) {
    throw new BadValue("is too long", `give at most ${longest} bytes`);
  }
  return text;
};

/** The path of a file on this computer. */
export const localPath = line(4096);

/** Where the agent is put on a machine: the absolute path of a file. */
export function targetPath(text: string): string {
  const path = line(1024)(text);
  if (!path.startsWith("/")) {
    throw new BadValue("is not absolute", "give a path that begins with /, such as /root/agent");
  }
  const name = path.slice(path.lastIndexOf("/") + 1);
  if (name === "" || name === "." || name === "..") {
    throw new BadValue("names a folder", "give the path of a file, such as /root/agent");
  }
  // File systems take 255; a temporary name beside it is somewhat longer than the name.
  if (Buffer.byteLength(name) > 200) {
    throw new BadValue("has too long a file name", "give one of at most 200 bytes");
  }
  return path;
}

/** A user's name on the machines. */
export function userName(text: string): string {
  if (!/^[\p{L}\p{N}_][\p{L}\p{N}_.@\\+-]{0,127}\$?$/u.test(text)) {
    throw new BadValue("is not a user name", "give one such as root, without spaces");
  }
  return text;
}

/** An address to listen on: an IP literal or a host name. */
export function listenAddress(text: string): string {
  if (isIP(text) === 0 && !/^(?=.{1,253}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(text)) {
    throw new BadValue(
      "is neither an IP address nor a host name",
      "give one such as 127.0.0.1, 0.0.0.0 or ::1, without a port",
    );
  }
  return text;
}
