import { existsSync } from "node:fs";
import { chmod, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { Connection } from "../../src/ssh/connection.js";
import { openConnection } from "../../src/ssh/dial.js";
import { loadAgentExecutable } from "../../src/takeover/agent-executable.js";
import { readExecutableFormat } from "../../src/takeover/executable-format.js";
import { buildInit, encodeInit } from "../../src/takeover/init.js";
import { runAgent } from "../../src/takeover/run-agent.js";
import type { TakeoverSettings } from "../../src/takeover/settings.js";
import { verify } from "../../src/takeover/verify.js";
import { anyKey, dialOptions } from "../support/dialling.js";
import { mayMount, mountTmpfs, unmount } from "../support/mounts.js";
import { failureOf } from "../support/rejection.js";
import {
  type Script,
  type ScriptedServer,
  scriptedSshServer,
} from "../support/scripted-ssh-server.js";
import {
  LOGIN_SHELLS,
  onPath,
  SshScene,
  withLoginShell,
  withStartUp,
} from "../support/ssh-scene.js";
import { describeWithSshd } from "../support/sshd.js";
import { type Bench, machineAt, never, setUpBench } from "../support/takeover-scene.js";
import { tcpProxy } from "../support/tcp-peer.js";
import { waitFor } from "../support/wait.js";

describeWithSshd("the agent's run on a real OpenSSH server", () => {
  const scene = new SshScene();

  const place = async (agent: string | Buffer) => {
    await mkdir(dirname(scene.bench.target), { recursive: true });
    await writeFile(scene.bench.target, agent);
    await chmod(scene.bench.target, 0o755);
  };
  const run = async (
    changes: Partial<TakeoverSettings> = {},
    { signal = never(), port = scene.sshd.port } = {},
  ) => {
    const connection = await scene.dial(port);
    const settings = scene.bench.settings(scene.sshd, changes);
    const init = buildInit(machineAt(port), settings);
    return { init, reply: await runAgent({ connection, init }, settings, signal) };
  };
  const runScript = async (script: string, changes: Partial<TakeoverSettings> = {}) => {
    await place(`#!/bin/sh\n${script}\n`);
    return run(changes);
  };
  const failureOfScript = (script: string, changes: Partial<TakeoverSettings> = {}) =>
    failureOf(runScript(script, changes));

  it("gives the agent the init and then the end of its input, and brings back what it answers", async () => {
    await scene.start();
    const { init, reply } = await runScript("cat; echo note >&2");
    expect(Buffer.from(reply.bytes)).toEqual(encodeInit(init));
    expect(reply).toMatchObject({ stderr: "note", cutShort: null });
  });

  it.each([
    ["a line", "echo Welcome to prod"],
    ["text without line end", "printf Welcome"],
    ["a megabyte", "head -c 1000000 /dev/zero | tr '\\0' x"],
    ["text on both streams", "echo out; echo err >&2"],
  ])("drops %s of start-up text before the reply", async (_what, script) => {
    await scene.start(withStartUp(script));
    const { init, reply } = await runScript("cat");
    expect(Buffer.from(reply.bytes)).toEqual(encodeInit(init));
  });

  it("gives up on a machine that never stops talking before the agent starts", async () => {
    await scene.start(withStartUp("yes"));
    const failure = await failureOfScript("cat");
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_OUTPUT_TOO_LARGE");
    expect(failure.message).toContain("more than 1 MiB of text came before");
  });

  it("refuses a reply of more than 64 KiB, and takes one of 64", async () => {
    await scene.start();
    const { reply } = await runScript("head -c 65536 /dev/zero");
    expect(reply.bytes).toHaveLength(65_536);
    const failure = await failureOfScript("head -c 65537 /dev/zero; sleep 5");
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_OUTPUT_TOO_LARGE");
    expect((await failureOfScript("yes")).code).toBe("TAKEOVER_RUN_AGENT_OUTPUT_TOO_LARGE");
  });

  it("keeps the end of a flood on standard error, and goes on", async () => {
    await scene.start();
    const held = () => {
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    const before = held();
    let most = before;
    const watch = setInterval(() => {
      most = Math.max(most, held());
    }, 10);
    const { reply } = await runScript(
      "head -c 120000000 /dev/zero | tr '\\0' x >&2; echo the end >&2; printf reply",
    ).finally(() => clearInterval(watch));
    // Some 33 MB wait for the garbage collector, of 120.
    expect(most - before).toBeLessThan(60_000_000);
    expect(Buffer.from(reply.bytes).toString()).toBe("reply");
    expect(reply.stderr).toMatch(/^x+the end$/);
    expect(reply.stderr.length).toBeLessThanOrEqual(1000);
  });

  it.each([
    ["both streams", "", ""],
    ["standard error alone", ">/dev/null", ""],
  ])("does not wait for a child that keeps %s, which runs on", async (_what, redirect) => {
    await scene.start();
    const pidFile = join(scene.bench.folder, "pid");
    const begun = performance.now();
    const { reply } = await runScript(`sleep 30 ${redirect} & echo $! >${pidFile}; printf reply`);
    expect(Buffer.from(reply.bytes).toString()).toBe("reply");
    expect(performance.now() - begun).toBeLessThan(5000);
    const pid = Number(await readFile(pidFile, "utf8"));
    scene.afterwards(() => process.kill(pid, "SIGKILL"));
    await scene.connection.close();
    await waitFor("the server's side is gone", () => scene.sshd.connections().length === 0);
    // Not by a signal: a process that has ended takes those until somebody reaps it.
    expect(await readFile(`/proc/${pid}/status`, "utf8")).toMatch(/^State:\s[^ZX]/m);
  });

  it("takes any exit but 0 for a failure, also behind a reply, with the end of standard error", async () => {
    await scene.start();
    const failure = await failureOfScript("cat; echo 'no disk\u001b[31m found' >&2; exit 3");
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_EXITED");
    expect(failure.message).toBe("the agent exited 3; its standard error ends: no disk [31m found");
  });

  it("takes an agent's exit for its cause though it did not read its input", async () => {
    await scene.start();
    const caCertificate = new Uint8Array(4_000_000);
    const failure = await failureOfScript("echo no >&2; exit 3", { caCertificate });
    expect(failure.message).toBe("the agent exited 3; its standard error ends: no");
  });

  it("tells a death by signal", async () => {
    await scene.start();
    const failure = await failureOfScript("kill -9 $$");
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_SIGNALED");
    expect(failure.message).toBe("the agent was killed by SIGKILL (out of memory?)");
  });

  it("ends by its deadline, with the end of standard error", async () => {
    await scene.start();
    const failure = await failureOfScript("echo waiting for the network >&2; sleep 30", {
      execTimeoutMs: 700,
    });
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_TIMEOUT");
    expect(failure.message).toBe(
      "the agent had not ended within --agent-ssh-exec-timeout 700ms; its standard error ends: waiting for the network",
    );
  });

  it("does not count an agent as run that replied and then hangs", async () => {
    await scene.start();
    const failure = await failureOfScript("cat; sleep 30", { execTimeoutMs: 500 });
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_TIMEOUT");
  });

  it("aborts within a second, with the reason given", async () => {
    await scene.start();
    await place(`#!/bin/sh\ntouch ${scene.bench.folder}/started\nsleep 30\n`);
    const aborter = new AbortController();
    const ran = run({}, { signal: aborter.signal }).catch((error: unknown) => error);
    await waitFor("the agent runs", () => existsSync(join(scene.bench.folder, "started")));
    const reason = new Error("stop");
    const begun = performance.now();
    aborter.abort(reason);
    expect(await ran).toBe(reason);
    expect(performance.now() - begun).toBeLessThan(1000);
  });

  it("tells a connection that was lost while the agent ran", async () => {
    await scene.start();
    const proxy = await tcpProxy(scene.sshd.port);
    scene.afterwards(proxy.stop);
    await place(`#!/bin/sh\ntouch ${scene.bench.folder}/started\nsleep 30\n`);
    const ran = run({}, { port: proxy.port });
    await waitFor("the agent runs", () => existsSync(join(scene.bench.folder, "started")));
    proxy.reset();
    const { init, reply } = await ran;
    const failure = await failureOf(
      verify({ reply, init }, { acceptFirstGenerationAgents: false }, never()),
    );
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_CONNECTION_LOST");
    expect(failure.message).toBe("the connection was lost while the agent ran");
  });

  it("says that the agent is not there", async () => {
    await scene.start();
    const failure = await failureOf(run());
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_NOT_EXECUTABLE");
    expect(failure.message).toContain(`(exit 127): ${scene.bench.target} is not there any more`);
  });

  it("says that the agent is not executable", async () => {
    await scene.start();
    await place("#!/bin/sh\n");
    await chmod(scene.bench.target, 0o644);
    const failure = await failureOf(run());
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_NOT_EXECUTABLE");
    expect(failure.message).toContain(`(exit 126): ${scene.bench.target} is not executable`);
  });

  it.skipIf(!mayMount())("says that the file system is mounted noexec", async () => {
    await scene.start();
    const disk = dirname(scene.bench.target);
    mountTmpfs(disk, "size=1m,noexec");
    scene.afterwards(() => unmount(disk));
    const failure = await failureOfScript("cat");
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_NOT_EXECUTABLE");
    expect(failure.message).toContain("is on a file system mounted noexec");
  });

  it("says that a script's interpreter is missing", async () => {
    await scene.start();
    await place("#!/nonexistent/python3\n");
    const executable = await loadAgentExecutable(scene.bench.target);
    const failure = await failureOf(run({ executable }));
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_NOT_EXECUTABLE");
    expect(failure.message).toContain("its interpreter /nonexistent/python3 is not on the machine");
  });

  it("says that a program's loader is missing", async (test) => {
    await scene.start();
    const program = onPath("true") ?? "/bin/true";
    const format = await readExecutableFormat(program);
    if (format.kind !== "elf" || format.loader === null) {
      test.skip("there is no dynamically linked program here");
      return;
    }
    const elf = await readFile(program);
    const other = format.loader.replace(/.{4}$/, "none");
    elf.write(other, elf.indexOf(format.loader), "latin1");
    await place(elf);
    const executable = await loadAgentExecutable(scene.bench.target);
    const failure = await failureOf(run({ executable }));
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_NOT_EXECUTABLE");
    expect(failure.message).toContain(`its loader ${other} is not on the machine`);
  });

  it("leaves an exit of 127 to an agent that can be executed", async () => {
    await scene.start();
    const failure = await failureOfScript("nonexistent-command");
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_EXITED");
    expect(failure.message).toMatch(/^the agent exited 127; .*nonexistent-command.*not found/);
  });

  it("never takes a forced command's text for the reply", async () => {
    await scene.start({ config: ['ForceCommand sh -c "echo Please use the console; exit 0"'] });
    const failure = await failureOfScript("cat");
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_EXITED");
    expect(failure.message).toContain(
      'did not start the agent but ran something else, which exited 0 and said "Please use the console"',
    );
  });

  for (const { name, path } of LOGIN_SHELLS) {
    it.skipIf(path === undefined)(`works where the login shell is ${name}`, async () => {
      await scene.start(withLoginShell(path));
      const { init, reply } = await runScript("cat");
      expect(Buffer.from(reply.bytes)).toEqual(encodeInit(init));
      await rm(scene.bench.target);
      expect((await failureOf(run())).code).toBe("TAKEOVER_RUN_AGENT_NOT_EXECUTABLE");
    });
  }
});

describe("the agent's run on a server that misbehaves", () => {
  let server: ScriptedServer;
  let bench: Bench;
  let connection: Connection;

  afterEach(async () => {
    connection.destroy();
    await server.stop();
    await bench.remove();
  });

  const run = async (script: Script, execTimeoutMs = 5000) => {
    server = await scriptedSshServer(script);
    bench = await setUpBench();
    connection = await openConnection(dialOptions(server.port), never());
    const settings = bench.settings({ clientKey: anyKey() }, { execTimeoutMs });
    const init = buildInit(machineAt(server.port), settings);
    return { init, reply: await runAgent({ connection, init }, settings, never()) };
  };
  const marker = (command: string): string => {
    const [, first, second] = /sh '([0-9a-f]{24})' '([0-9a-f]{24})'/.exec(command) ?? [];
    return `${first}${second}`;
  };

  it("says that the server refused a channel", async () => {
    const failure = await failureOf(
      run({
        exec: (_command, _accept, reject) => {
          reject();
          return true;
        },
      }),
    );
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_REFUSED");
  });

  it("bounds start and run by one deadline", async () => {
    const begun = performance.now();
    const failure = await failureOf(run({ exec: () => true }, 300));
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_TIMEOUT");
    expect(performance.now() - begun).toBeLessThan(2000);
  });

  it("finds the marker where it comes in pieces", async () => {
    const { reply } = await run({
      exec: (command, accept) => {
        const channel = accept();
        const whole = `text ${marker(command)}reply`;
        let at = 0;
        const next = (): void => {
          if (at < whole.length) {
            channel.write(whole[at++] ?? "", () => setImmediate(next));
          } else {
            channel.exit(0);
            channel.end();
          }
        };
        next();
        return true;
      },
    });
    expect(Buffer.from(reply.bytes).toString()).toBe("reply");
  });

  it("leaves a reply without exit status to be judged by itself", async () => {
    const withoutStatus = (text: string): Script => ({
      exec: (command, accept) => {
        const channel = accept();
        channel.write(marker(command) + text);
        channel.end();
        return true;
      },
    });
    const { init, reply } = await run(withoutStatus("rubbish"));
    expect(Buffer.from(reply.bytes).toString()).toBe("rubbish");
    const failure = await failureOf(
      verify({ reply, init }, { acceptFirstGenerationAgents: false }, never()),
    );
    expect(failure.code).toBe("TAKEOVER_RUN_AGENT_CONNECTION_LOST");
    expect(failure.message).toBe("the server ended the agent's channel without an exit status");
  });
});
