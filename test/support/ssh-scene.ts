import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { afterEach } from "vitest";
import type { Connection } from "../../src/ssh/connection.js";
import { openConnection } from "../../src/ssh/dial.js";
import { dialOptions } from "./dialling.js";
import { type Sshd, type SshdOptions, startSshd } from "./sshd.js";
import { type AgentMaker, type Bench, never, setUpBench } from "./takeover-scene.js";

/** A program's path, looked for as a shell does. */
export const onPath = (name: string): string | undefined =>
  (process.env.PATH ?? "")
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find(existsSync);

/** Login shells that machines have, and which of them are here. */
export const LOGIN_SHELLS = ["sh", "dash", "bash", "csh", "tcsh", "fish"].map((name) => ({
  name,
  path: onPath(name),
}));

/** Has sshd run commands by another shell than the user's: as its `-c` argument, untouched. */
export const withLoginShell = (path: string | undefined): SshdOptions => ({
  config: [`ForceCommand ${path} -c "$SSH_ORIGINAL_COMMAND"`],
});

/** Has commands, and SFTP, preceded by what `script` prints: as by a login shell's start-up files, whichever that is. */
export const withStartUp = (script: string): SshdOptions => ({
  config: [`ForceCommand ${script}; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"`],
});

/** The two ways a file goes to a machine. */
export const BOTH_WAYS: readonly (readonly [string, SshdOptions])[] = [
  ["by SFTP", {}],
  ["by the shell", { sftp: null }],
];

/** A real server, a connection to it and a bench, per test; all of it is gone after each. */
export class SshScene {
  #sshd: Sshd | undefined;
  #bench: Bench | undefined;
  #connection: Connection | undefined;
  readonly #cleanups: (() => unknown)[] = [];

  constructor() {
    afterEach(() => this.#tearDown());
  }

  get sshd(): Sshd {
    return present(this.#sshd);
  }

  get bench(): Bench {
    return present(this.#bench);
  }

  get connection(): Connection {
    return present(this.#connection);
  }

  /** Starts the server; anew, where one runs. */
  async start(options: SshdOptions = {}, agent?: AgentMaker): Promise<void> {
    await this.#sshd?.stop();
    this.#bench ??= await setUpBench(agent);
    this.#sshd = await startSshd(options);
  }

  /** Logs in, anew where that was done before. */
  async dial(port = this.sshd.port): Promise<Connection> {
    this.#connection?.destroy();
    const options = dialOptions(port, { key: this.sshd.clientKey });
    this.#connection = await openConnection(options, never());
    return this.#connection;
  }

  /** To be done after the test, last things first. */
  afterwards(cleanup: () => unknown): void {
    this.#cleanups.push(cleanup);
  }

  async #tearDown(): Promise<void> {
    this.#connection?.destroy();
    for (const cleanup of this.#cleanups.splice(0).reverse()) {
      await cleanup();
    }
    await this.#sshd?.stop();
    await this.#bench?.remove();
    this.#connection = undefined;
    this.#sshd = undefined;
    this.#bench = undefined;
  }
}

function present<T>(value: T | undefined): T {
  if (value === undefined) {
    throw new Error("the scene is not set up yet");
  }
  return value;
}
