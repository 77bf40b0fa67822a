import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { checkMachine } from "../../src/takeover/check.js";
import { type Finding, SUBJECTS } from "../../src/takeover/check-findings.js";
import type { ProvidedMachine } from "../../src/takeover/machine.js";
import { takeOver } from "../../src/takeover/pipeline.js";
import type { TakeoverSettings } from "../../src/takeover/settings.js";
import { listing } from "../support/listing.js";
import { mayMount, mountTmpfs, remount, unmount } from "../support/mounts.js";
import { failureOf } from "../support/rejection.js";
import { LOGIN_SHELLS, onPath, withLoginShell, withStartUp } from "../support/ssh-scene.js";
import {
  describeWithSshd,
  freePort,
  generateKey,
  SSH_USER,
  type Sshd,
  type SshdOptions,
  startSshd,
} from "../support/sshd.js";
import {
  type AgentMaker,
  type Bench,
  machineAt,
  never,
  recordingContext,
  setUpBench,
} from "../support/takeover-scene.js";
import { tcpPeer, tcpProxy } from "../support/tcp-peer.js";
import { big } from "../support/uploads.js";
import { within } from "../support/wait.js";

type Proxy = Awaited<ReturnType<typeof tcpProxy>>;

interface Changes {
  readonly settings?: Partial<TakeoverSettings>;
  readonly machine?: Partial<ProvidedMachine>;
}

/** To be done after the test, last things first. */
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) {
    await cleanup();
  }
});

async function bench(agent?: AgentMaker): Promise<Bench> {
  const made = await setUpBench(agent);
  cleanups.push(() => made.remove());
  return made;
}

/** Checks, and fails where that changed anything below the bench or the home. */
async function check(sshd: Sshd, { settings, folder }: Bench, changes: Changes = {}) {
  const before = [...listing(folder), ...listing(sshd.home)];
  const findings: Finding[] = [];
  await checkMachine(
    machineAt(sshd.port, changes.machine),
    {
      settings: settings(sshd, changes.settings),
      providers: recordingContext(settings(sshd)).context.providers,
      tell: (finding) => findings.push(finding),
    },
    never(),
  );
  expect([...listing(folder), ...listing(sshd.home)]).toEqual(before);
  expect([...findings.map(({ subject }) => subject)].sort()).toEqual(
    SUBJECTS.filter((subject) => subject !== "record").sort(),
  );
  return findings;
}

const takeover = (sshd: Sshd, { settings }: Bench, changes: Changes = {}) =>
  takeOver(
    machineAt(sshd.port, changes.machine),
    recordingContext(settings(sshd, changes.settings)).context,
    never(),
  );

const found = (findings: readonly Finding[], verdict: Finding["verdict"]) =>
  Object.fromEntries(
    findings.filter((one) => one.verdict === verdict).map(({ subject, text }) => [subject, text]),
  );

/** The check finds one thing wrong, and a takeover then fails with the code of that. */
async function expectFailure(
  sshd: Sshd,
  place: Bench,
  [subject, code, text]: readonly [Finding["subject"], string, RegExp],
  changes: Changes = {},
): Promise<readonly Finding[]> {
  const findings = await check(sshd, place, changes);
  const failures = findings.filter(({ verdict }) => verdict === "fail");
  expect(failures).toEqual([{ subject, verdict: "fail", code, text: expect.stringMatching(text) }]);
  expect((await failureOf(takeover(sshd, place, changes))).code).toBe(code);
  return findings;
}

/** The check finds nothing wrong but remarks on these, and a takeover then succeeds. */
async function expectSuccess(
  sshd: Sshd,
  place: Bench,
  notes: Readonly<Record<string, RegExp>>,
  changes: Changes = {},
): Promise<readonly Finding[]> {
  const findings = await check(sshd, place, changes);
  expect(found(findings, "fail")).toEqual({});
  expect(found(findings, "unchecked")).toEqual({});
  expect(found(findings, "note")).toEqual(
    Object.fromEntries(
      Object.entries(notes).map(([subject, text]) => [subject, expect.stringMatching(text)]),
    ),
  );
  await (await takeover(sshd, place, changes)).close();
  return findings;
}

/** A folder of the bench with a file system of its own. */
function disk(folder: string, options: string): string {
  mountTmpfs(folder, options);
  cleanups.push(() => unmount(folder));
  return folder;
}

describeWithSshd("a check of a machine behind OpenSSH", () => {
  let sshd: Sshd;
  beforeAll(async () => {
    sshd = await startSshd();
  });
  afterAll(() => sshd.stop());

  it("finds all well where a takeover succeeds, and nothing to send afterwards", async () => {
    const place = await bench();
    const first = found(await expectSuccess(sshd, place, {}), "ok");
    expect(first.dial).toMatch(/^127\.0\.0\.1:\d+, ssh-ed25519 SHA256:\S{43}, the first one/);
    expect(first.login).toBe(`as ${SSH_USER}`);
    expect(first.target).toBe(`${place.folder} is writable; the folders below it will be made`);
    const second = found(await expectSuccess(sshd, place, {}), "ok");
    expect(second.target).toBe(`${place.target} is the executable already: nothing to send`);
    expect(second.space).toBe("not needed");
    expect(second.sftp).toBe("not needed");
  });

  it("says that nothing listens there, and that the rest was not checked", async () => {
    const place = await bench();
    const sshPort = await freePort();
    const findings = await expectFailure(
      sshd,
      place,
      ["dial", "TAKEOVER_DIAL_REFUSED", /refused the connection/],
      { machine: { sshPort } },
    );
    expect(Object.keys(found(findings, "ok"))).toEqual(["locate"]);
    expect(Object.keys(found(findings, "unchecked"))).toHaveLength(9);
  });

  it("says that the host key changed", async () => {
    const place = await bench();
    const { publicLine } = generateKey(join(place.folder, "other"), "ed25519");
    await expectFailure(
      sshd,
      place,
      ["dial", "TAKEOVER_DIAL_HOST_KEY_CHANGED", /on record from its last takeover/],
      { machine: { recordedHostKey: publicLine } },
    );
  });

  it("knows the key that is on record", async () => {
    const changes = { machine: { recordedHostKey: sshd.hostKeys.ed25519 ?? "" } };
    const findings = await check(sshd, await bench(), changes);
    expect(found(findings, "ok").dial).toMatch(/, as expected$/);
  });

  it("dials no stranger under pinned", async () => {
    await expectFailure(
      sshd,
      await bench(),
      ["dial", "TAKEOVER_DIAL_HOST_KEY_MISSING", /set ssh_host_key in its row/],
      { settings: { hostKeyPolicy: "pinned" } },
    );
  });

  it("says that the key opens nothing, but that the way there is good", async () => {
    const place = await bench();
    const { key } = generateKey(join(place.folder, "other"), "ed25519");
    const findings = await expectFailure(
      sshd,
      place,
      ["login", "TAKEOVER_DIAL_AUTH_FAILED", /does not accept the key/],
      { settings: { sshKey: key } },
    );
    expect(found(findings, "ok").dial).toMatch(/^127\.0\.0\.1:/);
  });

  it("says that no provider of that name is known, or that it has no address", async () => {
    const place = await bench();
    await expectFailure(sshd, place, ["locate", "TAKEOVER_LOCATE_UNKNOWN_PROVIDER", /"nobody"/], {
      machine: { provider: "nobody" },
    });
    await expectFailure(sshd, place, ["locate", "TAKEOVER_LOCATE_NO_ADDRESS", /no address/], {
      machine: { address: null },
    });
  });

  it("says that the provider is not ready yet, which is no failure", async () => {
    const place = await bench();
    const findings: Finding[] = [];
    const locate = async () => {
      return { state: "not_ready", reason: "being installed", retryAfterSeconds: 40 } as const;
    };
    const context = {
      settings: place.settings(sshd),
      providers: new Map([["static", { locate }]]),
      tell: (finding: Finding) => findings.push(finding),
    };
    await checkMachine(machineAt(sshd.port), context, never());
    expect(findings[0]).toMatchObject({ subject: "locate", verdict: "fail", code: null });
    expect(findings[0]?.text).toContain("again in 40 s: being installed");
  });

  it("says that the target is a folder", async () => {
    const place = await bench();
    mkdirSync(place.target, { recursive: true });
    await expectFailure(sshd, place, ["target", "TAKEOVER_UPLOAD_FAILED", /it is a directory/]);
  });

  it.each([
    ["a file", (path: string) => writeFileSync(path, "")],
    ["a symbolic link to nowhere", (path: string) => symlinkSync("/nonexistent", path)],
  ])("says that a part of the path is %s", async (_what, make) => {
    const place = await bench();
    make(dirname(place.target));
    await expectFailure(sshd, place, [
      "target",
      "TAKEOVER_UPLOAD_FAILED",
      /a part of the path is not a directory \(\S+\/machine\)/,
    ]);
  });

  it("says that the executable is for another architecture", async () => {
    const place = await bench(() => foreignElf());
    await expectFailure(sshd, place, [
      "processor",
      "TAKEOVER_UPLOAD_WRONG_ARCHITECTURE",
      /the executable is for \w+, the machine is \w+/,
    ]);
  });

  it("gives the first of several failures that a takeover would meet", async () => {
    const place = await bench(() => foreignElf());
    mkdirSync(place.target, { recursive: true });
    const failures = (await check(sshd, place)).filter(({ verdict }) => verdict === "fail");
    expect(failures.map(({ subject }) => subject)).toEqual(["target", "processor"]);
    expect((await failureOf(takeover(sshd, place))).code).toBe(failures[0]?.code);
  });

  it("says that a script's interpreter is not there", async () => {
    const place = await bench(() => "#!/nonexistent/python3\n");
    await expectFailure(sshd, place, [
      "execution",
      "TAKEOVER_RUN_AGENT_NOT_EXECUTABLE",
      /interpreter \/nonexistent\/python3 is not on the machine/,
    ]);
  });

  it("says that a program's loader is not there", async (test) => {
    const program = readFileSync(process.execPath).subarray(0, 8192);
    const at = program.indexOf("/ld-");
    test.skip(at < 0, "this Node has no loader");
    program.write("/no-", at, "latin1");
    const place = await bench(() => program);
    await expectFailure(sshd, place, [
      "execution",
      "TAKEOVER_RUN_AGENT_NOT_EXECUTABLE",
      /its loader \S+ is not on the machine/,
    ]);
  });

  it.skipIf(!mayMount())("says that the disk is full, and by how much", async () => {
    const place = await bench(() => big(4));
    disk(dirname(place.target), "size=1m");
    await expectFailure(sshd, place, [
      "space",
      "TAKEOVER_UPLOAD_FAILED",
      /^the disk is full \(1024 KiB free, 4096 KiB needed\)$/,
    ]);
  });

  it.skipIf(!mayMount())("says that no inode is free", async () => {
    const place = await bench();
    disk(dirname(place.target), "nr_inodes=1");
    await expectFailure(sshd, place, ["space", "TAKEOVER_UPLOAD_FAILED", /no inode is free/]);
  });

  it.skipIf(!mayMount())("asks for room beside the file that is replaced", async () => {
    const place = await bench(() => big(4));
    disk(dirname(place.target), "size=6m");
    writeFileSync(place.target, big(3));
    await expectFailure(sshd, place, ["space", "TAKEOVER_UPLOAD_FAILED", /3072 KiB free/]);
  });

  it.skipIf(!mayMount())("says that the target is on a file system mounted noexec", async () => {
    const place = await bench();
    disk(dirname(place.target), "size=1m,noexec");
    await expectFailure(sshd, place, [
      "execution",
      "TAKEOVER_RUN_AGENT_NOT_EXECUTABLE",
      /file system mounted noexec/,
    ]);
  });

  it.skipIf(!mayMount())("looks where the path leads, through links and odd names", async () => {
    const place = await bench();
    const noexec = disk(join(place.folder, "odd \\ place"), "size=1m,noexec");
    symlinkSync(noexec, join(place.folder, "link"));
    const targetPath = join(place.folder, "link", "below", "agent");
    await expectFailure(
      sshd,
      place,
      ["execution", "TAKEOVER_RUN_AGENT_NOT_EXECUTABLE", /mounted noexec/],
      { settings: { targetPath } },
    );
    // And the other way round: a mount over a mount is what counts.
    disk(noexec, "size=1m");
    await expectSuccess(sshd, place, {}, { settings: { targetPath } });
  });

  it.skipIf(!mayMount())("says that the file system is read-only", async () => {
    const place = await bench();
    remount(disk(dirname(place.target), "size=1m"), "ro");
    await expectFailure(sshd, place, [
      "target",
      "TAKEOVER_UPLOAD_FAILED",
      /the file system is read-only/,
    ]);
  });

  it.skipIf(!mayMount())("says that something is mounted on the target", async () => {
    const place = await bench();
    mkdirSync(dirname(place.target));
    writeFileSync(place.target, "");
    execFileSync("mount", ["--bind", place.target, place.target]);
    cleanups.push(() => unmount(place.target));
    await expectFailure(sshd, place, ["target", "TAKEOVER_UPLOAD_FAILED", /the target is busy/]);
  });

  it.for([
    ["immutable", "+i"],
    ["append-only", "+a"],
  ] as const)("says that the folder is %s", async ([_what, flag], { skip }) => {
    const place = await bench();
    mkdirSync(dirname(place.target));
    const attribute = (change: string) =>
      execFileSync("chattr", [change, dirname(place.target)], { stdio: "ignore" });
    try {
      attribute(flag);
    } catch {
      skip("chattr may not set that here");
    }
    cleanups.push(() => attribute(flag.replace("+", "-")));
    await expectFailure(sshd, place, [
      "target",
      "TAKEOVER_UPLOAD_FAILED",
      /no permission to write there/,
    ]);
  });

  it.each([
    ["TAKEOVER_UPLOAD_STALLED", (proxy: Proxy) => Object.assign(proxy.knobs, { stalled: true })],
    ["TAKEOVER_UPLOAD_CONNECTION_LOST", (proxy: Proxy) => proxy.reset()],
  ])("gives %s where the connection fails after the login", async (code, fail) => {
    const place = await bench();
    const proxy = await tcpProxy(sshd.port);
    cleanups.push(() => proxy.stop());
    const settings = place.settings(sshd, { uploadStallTimeoutMs: 500 });
    const findings: Finding[] = [];
    await checkMachine(
      machineAt(proxy.port),
      {
        settings,
        providers: recordingContext(settings).context.providers,
        tell: (finding) => {
          findings.push(finding);
          if (finding.subject === "login") {
            fail(proxy);
          }
        },
      },
      never(),
    );
    const failures = findings.filter(({ verdict }) => verdict === "fail");
    expect(failures).toMatchObject([{ subject: "shell", code }]);
  });

  it("ends within a second when it is told to, whatever it waits for", async () => {
    const place = await bench();
    const proxy = await tcpProxy(sshd.port);
    const silent = await tcpPeer(() => {});
    cleanups.push(() => Promise.all([proxy.stop(), silent.stop()]));
    for (const [port, stallAfter] of [
      [silent.port, undefined],
      [proxy.port, "login"],
      [proxy.port, "shell"],
    ] as const) {
      proxy.knobs.stalled = false;
      const stop = new AbortController();
      const reason = new Error("enough");
      const quitting = checkMachine(
        machineAt(port),
        {
          settings: place.settings(sshd),
          providers: recordingContext(place.settings(sshd)).context.providers,
          tell: ({ subject }) => {
            proxy.knobs.stalled ||= subject === stallAfter;
            if (stallAfter === subject || stallAfter === undefined) {
              setTimeout(() => stop.abort(reason), 200);
            }
          },
        },
        stop.signal,
      );
      quitting.catch(() => {});
      await within("the abort", 10_000, once(stop.signal, "abort"));
      await expect(within("the check ends", 1000, quitting)).rejects.toBe(reason);
    }
  });
});

describeWithSshd("a check of a machine whose server or shell is peculiar", () => {
  const serve = async (options: SshdOptions): Promise<Sshd> => {
    const sshd = await startSshd(options);
    cleanups.push(() => sshd.stop());
    return sshd;
  };

  it.each<[string, SshdOptions, Record<string, RegExp>]>([
    ["has no SFTP", { sftp: null }, { sftp: /no SFTP subsystem/ }],
    ["has no program for SFTP", { sftp: "/nonexistent/x" }, { sftp: /ended with exit code 127/ }],
    [
      "prints start-up text",
      withStartUp("echo Welcome to \x1b[31mprod"),
      { sftp: /in place of SFTP: "Welcome to/, "start-up": /^\d+ bytes of text .*: "Welcome to/ },
    ],
    ["serves one channel at a time", { config: ["MaxSessions 1"] }, {}],
  ])("finds it good enough where it %s", async (_what, options, notes) => {
    await expectSuccess(await serve(options), await bench(), notes);
  });

  it("finds it good enough where it has neither df nor a tool that hashes", async () => {
    const place = await bench();
    const sshd = await serve({ env: { PATH: toolbox(place, TOOLS) } });
    await expectSuccess(sshd, place, { tools: /none for SHA-256/, space: /not known/ });
  });

  it("says which of the tools that an upload needs is not there", async () => {
    const place = await bench();
    const path = toolbox(place, [...TOOLS.filter((tool) => tool !== "mv"), "sha256sum"]);
    const sshd = await serve({ env: { PATH: path } });
    await expectFailure(sshd, place, ["tools", "TAKEOVER_UPLOAD_FAILED", /has no mv/]);
  });

  // Those that read a command line least like sh; test/takeover/upload.test.ts has the others.
  for (const { name, path } of LOGIN_SHELLS.filter((shell) => /^(csh|fish)$/.test(shell.name))) {
    it.skipIf(path === undefined)(`finds all well where the login shell is ${name}`, async () => {
      const place = await bench();
      const targetPath = join(place.folder, "it's $HOME", "!! `x` \\z", "agent & co");
      const sshd = await serve(withLoginShell(path));
      for (const folder of [".config/fish", ".local/share/fish"]) {
        mkdirSync(join(sshd.home, folder), { recursive: true }); // fish makes them by itself.
      }
      await expectSuccess(sshd, place, {}, { settings: { targetPath } });
    });
  }

  it("says that root may not log in, as cloud images have it", async () => {
    const say = `echo 'Please login as the user \\"ubuntu\\" rather than the user \\"root\\".';echo;sleep 10;exit 142`;
    const sshd = await serve({ authorize: (line) => `command="${say}" ${line}` });
    const findings = await expectFailure(sshd, await bench(), [
      "shell",
      "TAKEOVER_UPLOAD_LOGIN_REFUSED",
      /Please login as the user "ubuntu"/,
    ]);
    expect(Object.keys(found(findings, "ok"))).toEqual(["locate", "dial", "login"]);
  });

  it("says that another program runs in place of a shell", async () => {
    const sshd = await serve({ config: ['ForceCommand sh -c "echo Router console; exit 7"'] });
    await expectFailure(sshd, await bench(), [
      "shell",
      "TAKEOVER_UPLOAD_FAILED",
      /something else, with exit code 7.*Router console/,
    ]);
  });

  it("says that the server opens no channel", async () => {
    const sshd = await serve({ config: ["MaxSessions 0"] });
    await expectFailure(sshd, await bench(), [
      "shell",
      "TAKEOVER_UPLOAD_FAILED",
      /the server refused a channel/,
    ]);
  });

  it("says that there is more start-up text than a reply may have before it", async () => {
    const sshd = await serve(withStartUp("head -c 1100000 /dev/zero | tr '\\0' x"));
    const findings = await expectFailure(sshd, await bench(), [
      "start-up",
      "TAKEOVER_RUN_AGENT_OUTPUT_TOO_LARGE",
      /more than 1 MiB of text/,
    ]);
    expect(findings.every(({ text }) => text.length < 1000)).toBe(true);
  });
});

/** What a machine must have of tools, but for one that hashes. */
const TOOLS = ["sh", "wc", "rm", "mv", "chmod", "cat", "mkdir", "mktemp"];

/** A folder with these tools alone. */
function toolbox({ folder }: Bench, tools: readonly string[]): string {
  const bin = join(folder, "bin");
  mkdirSync(bin);
  for (const tool of tools) {
    symlinkSync(onPath(tool) ?? "", join(bin, tool));
  }
  return bin;
}

/** An ELF header for a processor that this computer has not. */
function foreignElf(): Buffer {
  const elf = Buffer.alloc(4096);
  elf.write("\x7fELF\x02\x01\x01", "latin1");
  elf.writeUInt16LE(process.arch === "s390x" ? 62 : 22, 18);
  return elf;
}
