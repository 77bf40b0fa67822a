import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Connection } from "../../src/ssh/connection.js";
import { openConnection } from "../../src/ssh/dial.js";
import { upload } from "../../src/takeover/upload.js";
import { GUARD, INSTALL } from "../../src/takeover/upload-scripts.js";
import { anyKey, dialOptions } from "../support/dialling.js";
import { failureOf } from "../support/rejection.js";
import {
  runByShell,
  type Script,
  type ScriptedServer,
  type SftpFaults,
  scriptedSshServer,
  sftpServer,
} from "../support/scripted-ssh-server.js";
import { type Bench, never, setUpBench } from "../support/takeover-scene.js";
import { waitFor } from "../support/wait.js";

const FAILURE = 4;
const PERMISSION_DENIED = 3;
/** What answers does so within that, however busy the machine; and where nothing does, how long is waited. */
const STALL_MS = 15_000;
const STALLED_MS = 1_000;

describe("an upload to a server that misbehaves", () => {
  let bench: Bench;
  let server: ScriptedServer | undefined;
  let connection: Connection | undefined;

  beforeEach(async () => {
    bench = await setUpBench(() => Buffer.alloc(1_000_000, "agent"));
    await mkdir(dirname(bench.target), { recursive: true });
    await writeFile(bench.target, "the old agent");
  });
  afterEach(async () => {
    connection?.destroy();
    await server?.stop();
    // Whatever went wrong: the target is as it was, and nothing lies beside it.
    expect(await readFile(bench.target, "utf8")).toBe("the old agent");
    // Its shell removes the probe for the reason, where that was given up.
    const beside = async () => (await readdir(dirname(bench.target))).length - 1;
    await waitFor("nothing lies beside it", async () => (await beside()) === 0);
    await bench.remove();
  });

  const send = async (script: Script, uploadStallTimeoutMs = STALL_MS) => {
    server = await scriptedSshServer(script);
    connection = await openConnection(dialOptions(server.port), never());
    const settings = bench.settings({ clientKey: anyKey() }, { uploadStallTimeoutMs });
    return failureOf(upload({ connection, machineId: "machine" }, settings, never()));
  };
  const faulty = (faults: SftpFaults, stallMs?: number) =>
    send({ sftp: sftpServer(faults) }, stallMs);

  it("is refused where the server drops writes and says they went well", async () => {
    const failure = await faulty({ onWrite: (index) => (index % 10 === 9 ? "ok" : undefined) });
    expect(failure.code).toBe("TAKEOVER_UPLOAD_MISMATCH");
    expect(failure.message).toMatch(/it has SHA-256 [0-9a-f]{64}, not SHA-256 [0-9a-f]{64}$/);
  });

  it("is refused where the server cuts the file short", async () => {
    const failure = await faulty({ onWrite: (index) => (index >= 4 ? "ok" : undefined) });
    expect(failure.code).toBe("TAKEOVER_UPLOAD_MISMATCH");
    expect(failure.message).toContain("it has 131072 bytes, not 1000000 bytes");
  });

  it("is refused where the machine cannot hash, and what is read back is not the file sent", async () => {
    const failure = await send({
      sftp: sftpServer({ onWrite: (index) => (index % 10 === 9 ? "ok" : undefined) }),
      exec: (command, accept) => {
        runByShell(command.replaceAll("command -v ", "command -v no-such-"), accept());
        return true;
      },
    });
    expect(failure.code).toBe("TAKEOVER_UPLOAD_MISMATCH");
    expect(failure.message).toMatch(/it has SHA-256 [0-9a-f]{64}, not SHA-256 [0-9a-f]{64}$/);
  });

  it("fails with the server's word where the machine finds no reason either", async () => {
    const failure = await faulty({ onWrite: (index) => (index === 3 ? FAILURE : undefined) });
    expect(failure.code).toBe("TAKEOVER_UPLOAD_FAILED");
    expect(failure.message).toBe(`${bench.target} cannot be written: SFTP says "Failure" (4)`);
  });

  it("counts only when the closing was acknowledged", async () => {
    expect((await faulty({ onClose: () => FAILURE })).code).toBe("TAKEOVER_UPLOAD_FAILED");
  });

  it("tells a refusal to open the file", async () => {
    const failure = await faulty({ onOpen: () => PERMISSION_DENIED });
    expect(failure.message).toContain("no permission to write there");
  });

  it.each<[string, SftpFaults, string]>([
    ["a write", { onWrite: (index) => (index === 5 ? "silence" : undefined) }, "bytes sent"],
    ["the closing", { onClose: () => "silence" }, "closing the file"],
  ])("ends by the stall timeout where %s is never acknowledged", async (_what, faults, doing) => {
    const failure = await faulty(faults, STALLED_MS);
    expect(failure.code).toBe("TAKEOVER_UPLOAD_STALLED");
    expect(failure.message).toContain(doing);
    expect(failure.message).toContain("--upload-stall-timeout 1s");
  });

  it("ends by the stall timeout where no command is ever started, or never ends", async () => {
    expect((await send({ exec: () => true }, STALLED_MS)).code).toBe("TAKEOVER_UPLOAD_STALLED");
    await server?.stop();
    const hangs: Script["exec"] = (_command, accept) => {
      accept();
      return true;
    };
    expect((await send({ exec: hangs }, STALLED_MS)).code).toBe("TAKEOVER_UPLOAD_STALLED");
  });

  it("ends by the stall timeout where SFTP never opens", async () => {
    const failure = await send({ sftp: "ignored" }, STALLED_MS);
    expect(failure.code).toBe("TAKEOVER_UPLOAD_STALLED");
    expect(failure.message).toContain("opening SFTP");
  });

  it("ends by the stall timeout where the partial file's guard is never started", async () => {
    const failure = await send({ exec: (command) => command.includes(GUARD) }, STALLED_MS);
    expect(failure.code).toBe("TAKEOVER_UPLOAD_STALLED");
    expect(failure.message).toContain("having the partial file guarded");
  });

  it("says that the server refused a channel", async () => {
    const failure = await send({
      exec: (_command, _accept, reject) => {
        reject();
        return true;
      },
    });
    expect(failure.message).toBe("the server refused a channel");
  });

  it("survives an SFTP server that dies in the middle", async () => {
    const failure = await send({
      sftp: (sftp) => {
        sftpServer({
          onWrite: (index) => {
            if (index === 3) {
              sftp.end();
            }
            return undefined;
          },
        })(sftp);
      },
    });
    expect(failure.code).toBe("TAKEOVER_UPLOAD_FAILED");
    expect(failure.message).toBe("the machine's SFTP server gave up");
  });

  it("is not fooled by a shell that says nothing of what became of the file", async () => {
    const failure = await send({
      exec: (command, accept) => {
        if (!command.includes(INSTALL)) {
          return false;
        }
        // Its marker comes, and its answer does not.
        runByShell(command.replace(/shift 2; .*?' sh/s, 'shift 2; rm -f "$1"\' sh'), accept());
        return true;
      },
    });
    expect(failure.code).toBe("TAKEOVER_UPLOAD_FAILED");
    expect(existsSync(bench.target)).toBe(true);
  });
});
