import { TakeoverError } from "../errors.js";
import type { ScriptResult } from "./remote-script.js";
import type { UploadPlan } from "./upload-plan.js";

/**
 * A forced command, a vendor's program or nologin in place of a shell runs, but not what we asked for.
 *
 * @throws TakeoverError TAKEOVER_UPLOAD_LOGIN_REFUSED, or TAKEOVER_UPLOAD_FAILED with what it said
 */
export function mustHaveRun(result: ScriptResult): void {
  if (result.refused) {
    throw new TakeoverError(
      "TAKEOVER_UPLOAD_LOGIN_REFUSED",
      `the image does not let this user run commands; set ssh_user in the machine's row, or --ssh-user. It says: "${result.preamble}"`,
    );
  }
  if (!result.started) {
    const ended = result.ending.how === "exited" ? `, with exit code ${result.ending.code}` : "";
    const said = result.preamble || result.stderr;
    throw new TakeoverError(
      "TAKEOVER_UPLOAD_FAILED",
      `the machine did not run our command but something else${ended}: is there a forced command, or a login shell that is none?${said === "" ? "" : ` It says: "${said}"`}`,
    );
  }
}

/**
 * Why the uploaded file was not put in place, by the answer of the script that had to; null where it was.
 * `denied`: something could not be written, and the machine is still to be asked why.
 */
export function placementFailure(
  result: ScriptResult,
  plan: UploadPlan,
): TakeoverError | "denied" | null {
  const size = result.get("size")?.trim();
  const hash = result.get("hash");
  if (result.get("placed") === "yes") {
    return null;
  }
  if (result.get("isdir") === "yes") {
    return isDirectory(plan);
  }
  if (hash !== undefined) {
    const shown = /[0-9a-f]{64}/.exec(hash)?.[0] ?? hash;
    return mismatch(`SHA-256 ${shown}`, `SHA-256 ${plan.executable.sha256}`);
  }
  if (size !== undefined) {
    return mismatch(`${size} bytes`, `${plan.executable.size} bytes`);
  }
  return "denied";
}

export function mismatch(found: string, wanted: string): TakeoverError {
  return new TakeoverError(
    "TAKEOVER_UPLOAD_MISMATCH",
    `the file on the machine is not the file sent: it has ${found}, not ${wanted}`,
  );
}

export function isDirectory({ targetPath }: Pick<UploadPlan, "targetPath">): TakeoverError {
  return notWritable(targetPath, "it is a directory");
}

export function notWritable(
  targetPath: string,
  reason: string,
  options?: { cause?: unknown },
): TakeoverError {
  return new TakeoverError(
    "TAKEOVER_UPLOAD_FAILED",
    `${targetPath} cannot be written: ${reason}`,
    options,
  );
}
