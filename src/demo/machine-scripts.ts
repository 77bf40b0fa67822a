import { createHash } from "node:crypto";
import { createReadStream, rmSync } from "node:fs";
import { access, chmod, constants, mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import type { ServerChannel } from "ssh2";
import { GUARD, INSTALL, PREPARE } from "../takeover/upload-scripts.js";
import type { Command } from "./command-words.js";

/**
 * The worker's scripts around an upload, done here instead of by a shell and a dozen programs: for fleets
 * of thousands, where those cost several times what SSH does. They are known by their text; any other script
 * goes to a shell, as these do on machines whose fault is in their files.
 */
export async function answerScript(command: Command): Promise<string | null> {
  const [, , , first = "", second = "", ...parameters] = command.arguments;
  // Behind the marker, so that a longer script which ends the same is another.
  const is = (script: string) => command.script?.endsWith(`shift 2; ${script}`);
  const answer = is(PREPARE)
    ? await prepare(parameters)
    : is(INSTALL)
      ? await install(parameters)
      : null;
  return answer === null ? null : `${first}${second}${answer.join("\n")}\n`;
}

/** Whether this is the script that waits beside an upload and then removes its temporary file. */
export function guardsUpload({ script }: Command): boolean {
  return script === GUARD;
}

/** Does what that script does. All that runs here has been taken in already, so once is enough. */
export function guardHere({ paths: [file = ""] }: Command, channel: ServerChannel): void {
  channel.resume();
  channel.once("end", () => {
    rmSync(file, { force: true });
    channel.exit(0);
    channel.end();
  });
  channel.once("close", () => rmSync(file, { force: true }));
}

async function prepare([target = "", size, sha256, prefix = ""]: string[]): Promise<string[]> {
  const folder = path.dirname(target);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  for (const name of await readdir(folder)) {
    if (path.join(folder, name).startsWith(`${prefix}.`)) {
      await rm(path.join(folder, name));
    }
  }
  const there = await stat(target).catch(() => null);
  const same =
    there?.isFile() &&
    String(there.size) === size &&
    (await isExecutable(target)) &&
    (await sha256Of(target)) === sha256;
  return [
    `arch=${os.machine()}`,
    ...(there?.isDirectory() ? ["isdir=yes"] : []),
    ...(same ? ["there=yes"] : []),
    "prepared=yes",
  ];
}

async function install([file = "", target = "", size, sha256]: string[]): Promise<string[]> {
  const sent = await stat(file).catch(() => null);
  if (sent === null) {
    return ["denied=yes"];
  }
  if ((await stat(target).catch(() => null))?.isDirectory()) {
    await rm(file);
    return ["isdir=yes"];
  }
  const found = String(sent.size);
  const hash = sha256 === "-" ? sha256 : await sha256Of(file);
  if (found !== size || hash !== sha256) {
    await rm(file);
    return [found === size ? `hash=${hash}` : `size=${found}`];
  }
  await chmod(file, 0o755);
  await rename(file, target);
  return ["placed=yes"];
}

function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** The SHA-256 of a file, hex; null where it cannot be read. */
export async function sha256Of(file: string): Promise<string | null> {
  const digest = createHash("sha256");
  try {
    await pipeline(createReadStream(file), digest);
    return digest.digest("hex");
  } catch {
    return null; // Not there: whoever goes on to use it says so.
  }
}
