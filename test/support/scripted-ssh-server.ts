import { spawn } from "node:child_process";
import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import ssh2, { type Connection, type ServerChannel, type SFTPWrapper } from "ssh2";

/** An SSH server for faults that must be exact: it does what OpenSSH never would. */
export interface ScriptedServer {
  readonly port: number;
  stop(): Promise<void>;
}

export interface Script {
  readonly ident?: string;
  /** Called for each connection. */
  connected?(client: Connection): void;
  /** Commands: runs them by /bin/sh unless this takes them, by returning true. */
  exec?(command: string, accept: () => ServerChannel, reject: () => void): boolean;
  /** The SFTP subsystem: ignored (no answer), refused, or served by `sftpServer` or the test itself. */
  readonly sftp?: "ignored" | "refused" | ((sftp: SFTPWrapper) => void);
}

let hostKey: string | undefined;

export async function scriptedSshServer(script: Script = {}): Promise<ScriptedServer> {
  hostKey ??= ssh2.utils.generateKeyPairSync("ecdsa", { bits: 256 }).private;
  const clients = new Set<{ end(): void }>();
  const server = new ssh2.Server(
    { hostKeys: [hostKey], ...(script.ident && { ident: script.ident }) },
    (client) => {
      clients.add(client);
      script.connected?.(client);
      client.on("error", () => {}); // Clients hang up in the middle of things here.
      client.on("close", () => clients.delete(client));
      client.on("authentication", (login) =>
        login.method === "publickey" ? login.accept() : login.reject(["publickey"]),
      );
      client.on("session", (acceptSession) => {
        const session = acceptSession();
        session.on("exec", (accept, reject, { command }) => {
          if (!script.exec?.(command, accept, reject)) {
            runByShell(command, accept());
          }
        });
        session.on("sftp", (accept, reject) => {
          if (script.sftp === "refused") {
            reject();
          } else if (script.sftp !== "ignored") {
            (script.sftp ?? sftpServer())(accept());
          }
        });
      });
    },
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const address = server.address();
  if (address === null || typeof address === "string") {
    throw new Error("the server has no port");
  }
  return {
    port: address.port,
    async stop() {
      for (const client of clients) {
        client.end();
      }
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** What sshd does with a command. */
export function runByShell(command: string, channel: ServerChannel): void {
  const child = spawn("/bin/sh", ["-c", command]);
  child.stdin.on("error", () => {}); // A command need not read its input.
  channel.pipe(child.stdin);
  child.stdout.on("data", (chunk) => channel.write(chunk));
  child.stderr.on("data", (chunk) => channel.stderr.write(chunk));
  child.on("close", (code) => {
    channel.exit(code ?? 1);
    channel.end();
  });
}

const { OPEN_MODE, STATUS_CODE } = ssh2.utils.sftp;

export interface SftpFaults {
  /** What to answer to OPEN, WRITE number n (from 0), or CLOSE, in place of doing it; "ok" answers OK and does nothing. */
  onOpen?(): number | "ok" | undefined;
  onWrite?(index: number): number | "ok" | "silence" | undefined;
  onClose?(): number | "silence" | undefined;
}

/** An SFTP server over the real file system, as much of it as an upload uses, with faults. */
export function sftpServer(faults: SftpFaults = {}): (sftp: SFTPWrapper) => void {
  return (sftp) => {
    const files = new Map<string, number>();
    let writes = 0;
    sftp.on("end", () => sftp.end());
    sftp.on("OPEN", (id, path, flags, attributes) => {
      const fault = faults.onOpen?.();
      if (typeof fault === "number") {
        sftp.status(id, fault);
        return;
      }
      try {
        const exclusive = (flags & OPEN_MODE.EXCL) !== 0;
        const file = openSync(path, exclusive ? "wx" : "w", attributes.mode ?? 0o644);
        const handle = Buffer.from(`file-${file}`);
        files.set(handle.toString(), file);
        sftp.handle(id, handle);
      } catch {
        sftp.status(id, STATUS_CODE.FAILURE);
      }
    });
    sftp.on("WRITE", (id, handle, offset, data) => {
      const fault = faults.onWrite?.(writes++);
      if (fault === "silence") {
        return;
      }
      if (fault === undefined) {
        writeSync(files.get(handle.toString()) ?? -1, data, 0, data.length, offset);
      }
      sftp.status(id, typeof fault === "number" ? fault : STATUS_CODE.OK);
    });
    sftp.on("CLOSE", (id, handle) => {
      closeSync(files.get(handle.toString()) ?? -1);
      const fault = faults.onClose?.();
      if (fault !== "silence") {
        sftp.status(id, fault ?? STATUS_CODE.OK);
      }
    });
    sftp.on("REMOVE", (id, path) => {
      rmSync(path, { force: true });
      sftp.status(id, STATUS_CODE.OK);
    });
  };
}
