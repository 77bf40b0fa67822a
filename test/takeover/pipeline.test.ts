import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { describe, Snooze } from "../../src/errors.js";
import type { Provider } from "../../src/providers/provider.js";
import { type TakeoverContext, takeOver } from "../../src/takeover/pipeline.js";
import type { TakeoverSettings } from "../../src/takeover/settings.js";
import { createLogger } from "../../src/telemetry/logger.js";
import { shellAgent } from "../support/agents.js";
import { failureOf } from "../support/rejection.js";
import { SshScene } from "../support/ssh-scene.js";
import { describeWithSshd, freePort, startSshd } from "../support/sshd.js";
import { machineAt, never, recordingContext } from "../support/takeover-scene.js";
import { tcpPeer, tcpProxy } from "../support/tcp-peer.js";
import { big, namesIn } from "../support/uploads.js";
import { waitFor } from "../support/wait.js";

/** An agent in JavaScript: keeps a child behind that holds both streams, and replies before that child ends. */
const nodeAgent = (key: Buffer, pidFile: string) => `#!${process.execPath}
const { spawn } = require("node:child_process");
const { readFileSync, writeFileSync } = require("node:fs");
const init = readFileSync(0);
const child = spawn("sleep", ["60"], { detached: true, stdio: ["ignore", 1, 2] });
child.unref();
writeFileSync(${JSON.stringify(pidFile)}, String(child.pid));
const length = [];
for (let rest = init.length; rest > 0; rest >>= 7) length.push((rest & 127) | (rest > 127 ? 128 : 0));
process.stdout.write(Buffer.concat([
  Buffer.from([0x12, 32]), Buffer.from("${key.toString("hex")}", "hex"),
  Buffer.from([0x0a, ...length]), init,
  Buffer.from([0x1a, 7]), Buffer.from("no swap"),
]));
`;

describeWithSshd("a takeover on a real OpenSSH server", () => {
  const scene = new SshScene();

  const contextOf = (
    changes: Partial<TakeoverContext> = {},
    settings: Partial<TakeoverSettings> = {},
  ) => recordingContext(scene.bench.settings(scene.sshd, settings), changes);
  const expectHungUp = () =>
    waitFor("the connection is closed", () => scene.sshd.connections().length === 0);

  it("goes through all steps and brings the agent's key and the machine's host key", async () => {
    await scene.start();
    const { context, events, uploads } = contextOf();

    const over = await takeOver(machineAt(scene.sshd.port), context, never());

    expect(Buffer.from(over.agentKey)).toEqual(scene.bench.agentKey);
    expect(over.hostKey).toBe(scene.sshd.hostKeys.ed25519);
    expect(over.warnings).toEqual([]);
    expect(events).toEqual([
      "locate started",
      "locate ended",
      "dial started",
      "dial ended",
      "host key new",
      "upload started",
      "upload ended",
      "before run_agent",
      "run_agent started",
      "run_agent ended",
      "verify started",
      "verify ended",
    ]);
    expect(uploads).toEqual([{ result: "sent", bytes: context.settings.executable.size }]);
    expect(await readdir(dirname(scene.bench.target))).toEqual(["agent"]);
    expect(await readFile(scene.bench.target)).toEqual(
      await readFile(context.settings.executable.path),
    );
    // The caller commits first, and closes then.
    expect(scene.sshd.connections()).not.toEqual([]);
    await over.close();
    await expectHungUp();
  });

  it("writes nothing of the worker's private key into its log or the failure's cause, nor the nonce into its log", async () => {
    // Says on standard error whatever it was given.
    await scene.start({}, () => "#!/bin/sh\nod -An -tx1 -v | tr -d ' \\n' >&2\nexit 3\n");
    const log: string[] = [];
    const { context } = contextOf({
      log: createLogger({
        level: "trace",
        destination: { write: (line) => log.push(line) },
        readable: false,
      }),
    });
    const failure = await failureOf(takeOver(machineAt(scene.sshd.port), context, never()));
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_EXITED");
    const said = [...log, describe(failure)].join("\n");
    const [, base64 = ""] = (await readFile(join(scene.sshd.folder, "client"), "utf8")).split("\n");
    expect(said).not.toContain(base64.slice(0, 40));
    // The init ends with the nonce, and here the machine's own words with the init.
    const [, nonce] = /([0-9a-f]{32})\W*$/.exec(failure.message) ?? [];
    expect(nonce).toBeDefined();
    expect(log.join("\n")).not.toContain(nonce);
  });

  it("takes an agent in any language, whose child runs on behind it", async () => {
    await scene.start({}, (key, folder) => nodeAgent(key, join(folder, "pid")));
    const { context } = contextOf();
    const over = await takeOver(machineAt(scene.sshd.port), context, never());
    const child = Number(await readFile(join(scene.bench.folder, "pid"), "utf8"));
    scene.afterwards(() => process.kill(child, "SIGKILL"));
    expect(Buffer.from(over.agentKey)).toEqual(scene.bench.agentKey);
    expect(over.warnings).toEqual(["no swap"]);
    await over.close();
    await expectHungUp();
    expect(process.kill(child, 0)).toBe(true);
  });

  it("does it again on a machine where the agent is there already", async () => {
    await scene.start();
    const { context, uploads } = contextOf();
    for (const recordedHostKey of [null, scene.sshd.hostKeys.ed25519 ?? null]) {
      const machine = machineAt(scene.sshd.port, { recordedHostKey });
      await (await takeOver(machine, context, never())).close();
    }
    expect(uploads.map(({ result }) => result)).toEqual(["sent", "skipped"]);
  });

  it("brings no host key under insecure", async () => {
    await scene.start();
    const { context, events } = contextOf({}, { hostKeyPolicy: "insecure" });
    const over = await takeOver(machineAt(scene.sshd.port), context, never());
    expect(over.hostKey).toBeNull();
    expect(events).toContain("host key unchecked");
    await over.close();
  });

  it("tells of a host key that was refused, and goes no further", async () => {
    await scene.start({ hostKeys: ["ecdsa"] });
    const { context, events } = contextOf({}, { hostKeyPolicy: "pinned" });
    expect((await failureOf(takeOver(machineAt(scene.sshd.port), context, never()))).code).toBe(
      "TAKEOVER_DIAL_HOST_KEY_MISSING",
    );
    const machine = machineAt(scene.sshd.port, {
      requiredHostKey:
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
    });
    expect((await failureOf(takeOver(machine, context, never()))).code).toBe(
      "TAKEOVER_DIAL_HOST_KEY_CHANGED",
    );
    expect(events.slice(-3)).toEqual(["dial started", "dial ended", "host key changed"]);
    expect(events).toContain("host key missing");
  });

  it("follows a machine to another port, and leaves alone what answers at the old one", async () => {
    await scene.start();
    const { context, uploads } = contextOf();
    const { port: oldPort, clientKey } = scene.sshd;
    const first = await takeOver(machineAt(oldPort), context, never());
    await first.close();
    const authorize = () => clientKey.publicLine;
    const moved = await startSshd({ authorize });
    scene.afterwards(moved.stop);
    // Another machine has the old address by now, which lets us in as well.
    await scene.start({ port: oldPort, authorize, newHostKeys: true });

    const recordedHostKey = first.hostKey;
    const stranger = takeOver(machineAt(oldPort, { recordedHostKey }), context, never());
    expect((await failureOf(stranger)).code).toBe("TAKEOVER_DIAL_HOST_KEY_CHANGED");
    expect(uploads).toHaveLength(1);
    const found = await takeOver(machineAt(moved.port, { recordedHostKey }), context, never());
    expect(found.hostKey).toBe(recordedHostKey);
    await found.close();
  });

  it("drives twenty machines at once behind one server, to one path", async () => {
    await scene.start();
    const { context, uploads } = contextOf();
    const overs = await Promise.all(
      Array.from({ length: 20 }, () => takeOver(machineAt(scene.sshd.port), context, never())),
    );
    await Promise.all(overs.map((over) => over.close()));
    expect(uploads).toHaveLength(20);
    expect(await readdir(dirname(scene.bench.target))).toEqual(["agent"]);
  });

  it("starts nothing where the caller's last check fails, and hangs up", async () => {
    await scene.start({}, (key, folder) => shellAgent(key, { before: `touch ${folder}/ran` }));
    const trouble = new Error("the lock is lost");
    const { context, events } = contextOf({ beforeRunAgent: () => Promise.reject(trouble) });
    await expect(takeOver(machineAt(scene.sshd.port), context, never())).rejects.toBe(trouble);
    expect(events.at(-1)).toBe("upload ended");
    expect(existsSync(join(scene.bench.folder, "ran"))).toBe(false);
    await expectHungUp();
  });

  it("hangs up where a step fails", async () => {
    await scene.start({}, () => "#!/bin/sh\nexit 3\n");
    const { context, events } = contextOf();
    const failure = await failureOf(takeOver(machineAt(scene.sshd.port), context, never()));
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_EXITED");
    expect(events.at(-1)).toBe("run_agent ended");
    await expectHungUp();
  });

  it("refuses an agent that answers for another machine", async () => {
    // It answers, each time, what it was told first.
    await scene.start({}, (key) =>
      shellAgent(key, {
        before: 'first="$0.first"; [ -e "$first" ] || cat >"$first"; exec <"$first"',
      }),
    );
    const { context } = contextOf();
    await (await takeOver(machineAt(scene.sshd.port), context, never())).close();
    const failure = await failureOf(takeOver(machineAt(scene.sshd.port), context, never()));
    expect(failure.code).toBe("TAKEOVER_VERIFY_INIT_MISMATCH");
    expect(failure.message).toContain("machine_id, nonce differ; it answers for another machine");
    await expectHungUp();
  });

  it("snoozes where the provider says that the machine is not ready", async () => {
    await scene.start();
    const notYet: Provider = {
      locate: async () => ({ state: "not_ready", reason: "provisioning", retryAfterSeconds: 20 }),
    };
    const { context } = contextOf({ providers: new Map([["static", notYet]]) });
    const outcome = takeOver(machineAt(scene.sshd.port), context, never());
    await expect(outcome).rejects.toEqual(new Snooze("provisioning", 20));
  });

  it("fails at dial where nothing listens", async () => {
    await scene.start();
    const { context } = contextOf();
    const failure = await failureOf(takeOver(machineAt(await freePort()), context, never()));
    expect(failure.code).toBe("TAKEOVER_DIAL_REFUSED");
  });

  it("does nothing once aborted", async () => {
    await scene.start();
    const { context, events } = contextOf();
    const reason = new Error("stop");
    const outcome = takeOver(machineAt(scene.sshd.port), context, AbortSignal.abort(reason));
    await expect(outcome).rejects.toBe(reason);
    expect(events).toEqual([]);
  });
});

describeWithSshd("a takeover that is aborted", () => {
  const scene = new SshScene();

  /** Takes over until `ready`, aborts, and expects the reason within a second and nothing left behind. */
  async function abortAt(
    step: string,
    port: number,
    ready: () => boolean,
    changes: Partial<TakeoverContext> = {},
  ): Promise<void> {
    const { context, events } = recordingContext(scene.bench.settings(scene.sshd), changes);
    const aborter = new AbortController();
    const reason = new Error("stop");
    const outcome = takeOver(machineAt(port), context, aborter.signal).catch((error) => error);
    await waitFor(`${step} is under way`, () => events.includes(`${step} started`) && ready());
    const begun = performance.now();
    aborter.abort(reason);
    expect(await outcome).toBe(reason);
    expect(performance.now() - begun).toBeLessThan(1000);
    expect(events.at(-1)).toBe(`${step} ended`);
    await waitFor("the connection is closed", () => scene.sshd.connections().length === 0);
    const folder = dirname(scene.bench.target);
    const left = async () => (await namesIn(folder)).filter((name) => name !== "agent");
    await waitFor("no partial file", async () => (await left()).length === 0);
  }

  it("ends at locate", async () => {
    await scene.start();
    const silent: Provider = { locate: () => new Promise(() => {}) };
    await abortAt("locate", scene.sshd.port, () => true, {
      providers: new Map([["static", silent]]),
    });
  });

  it("ends at dial", async () => {
    await scene.start();
    const peer = await tcpPeer(() => {});
    scene.afterwards(peer.stop);
    await abortAt("dial", peer.port, () => peer.accepted() > 0);
  });

  it.each([
    ["over a quick path", {}],
    ["over a long path", { delayMs: 40 }],
  ])("ends at upload %s", async (_what, knobs) => {
    await scene.start({}, () => big(24));
    const proxy = await tcpProxy(scene.sshd.port, knobs);
    scene.afterwards(proxy.stop);
    await abortAt("upload", proxy.port, () => proxy.clientBytes() > 1_000_000);
  });

  it("ends at upload though the machine is dead, and tells no other error", async () => {
    await scene.start({}, () => big(16));
    const proxy = await tcpProxy(scene.sshd.port);
    scene.afterwards(proxy.stop);
    const stall = () => {
      proxy.knobs.stalled = proxy.clientBytes() > 1_000_000;
      return proxy.knobs.stalled;
    };
    const { context } = recordingContext(scene.bench.settings(scene.sshd));
    const aborter = new AbortController();
    const reason = new Error("stop");
    const outcome = takeOver(machineAt(proxy.port), context, aborter.signal).catch((e) => e);
    await waitFor("the upload is under way", stall);
    const begun = performance.now();
    aborter.abort(reason);
    expect(await outcome).toBe(reason);
    expect(performance.now() - begun).toBeLessThan(1000);
  });

  it("tells why it was aborted, whatever other error comes of it", async () => {
    await scene.start();
    const aborter = new AbortController();
    const reason = new Error("stop");
    const { context } = recordingContext(scene.bench.settings(scene.sshd), {
      onUpload: () => {
        aborter.abort(reason);
        throw new Error("an error of the teardown");
      },
    });
    const outcome = takeOver(machineAt(scene.sshd.port), context, aborter.signal);
    await expect(outcome).rejects.toBe(reason);
  });

  it("ends while the caller makes its last check", async () => {
    await scene.start();
    let asked = false;
    const { context } = recordingContext(scene.bench.settings(scene.sshd), {
      beforeRunAgent: () => {
        asked = true;
        return new Promise(() => {});
      },
    });
    const aborter = new AbortController();
    const reason = new Error("stop");
    const outcome = takeOver(machineAt(scene.sshd.port), context, aborter.signal);
    outcome.catch(() => {}); // Looked at below.
    await waitFor("the caller was asked", () => asked);
    aborter.abort(reason);
    await expect(outcome).rejects.toBe(reason);
  });

  it("ends at run_agent", async () => {
    await scene.start({}, (_key, folder) => `#!/bin/sh\ntouch ${folder}/started\nsleep 20\n`);
    const started = join(scene.bench.folder, "started");
    await abortAt("run_agent", scene.sshd.port, () => existsSync(started));
  });
});
