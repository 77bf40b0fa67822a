import { timingSafeEqual } from "node:crypto";
import type { Socket } from "node:net";
import ssh2, { type AuthContext, type Connection, type ParsedKey } from "ssh2";
import { ed25519PrivateFile } from "../ssh/openssh-key.js";
import { LateSocket } from "./late-socket.js";
import { furnish, type Machine } from "./machine.js";
import { serveFiles } from "./machine-files.js";
import { hostKeyPair } from "./machine-plan.js";
import { runCommand } from "./machine-shell.js";

/** Serves SSH on accepted sockets. */
export type Serve = (socket: Socket) => void;

/** The SSH server of one machine, made when it is first dialled: thousands of idle machines cost nothing. */
export function sshServer(machine: Machine): Serve {
  let server: ssh2.Server | undefined;
  return (socket) => {
    if (server === undefined) {
      furnish(machine);
      server = createServer(machine);
    }
    const { latencyMs } = machine.context;
    server.injectSocket(latencyMs > 0 ? (new LateSocket(socket, latencyMs) as never) : socket);
  };
}

function createServer(machine: Machine): ssh2.Server {
  const pair = hostKeyPair(machine.context.seed, machine.plan.number);
  return new ssh2.Server({ hostKeys: [ed25519PrivateFile(pair, "")] }, (client) =>
    serveConnection(machine, client),
  );
}

function serveConnection(machine: Machine, client: Connection): void {
  const { journal } = machine.context;
  const { machineId } = machine.plan;
  const connection = machine.context.nextConnection();
  journal.record({ event: "connected", machineId, connection });
  client.on("error", () => {}); // Clients hang up in the middle of things; "close" follows.
  client.on("close", () => journal.record({ event: "disconnected", machineId, connection }));
  client.on("authentication", (login) => {
    if (mayLogIn(machine, login)) {
      login.accept();
    } else {
      login.reject(["publickey"]);
    }
  });
  client.on("ready", () => journal.record({ event: "logged_in", machineId, connection }));
  client.on("session", (acceptSession) => {
    const session = acceptSession();
    session.on("exec", (accept, _reject, { command }) => {
      const channel = accept();
      channel.on("error", () => {}); // Its "close" tells all that matters.
      runCommand(machine, command, channel, connection).catch((error: unknown) => {
        channel.stderr.write(`the simulated machine failed: ${String(error)}\n`);
        channel.exit(1);
        channel.end();
      });
    });
    session.on("sftp", (accept) => {
      serveFiles(accept(), machine, (file) =>
        journal.record({ event: "uploaded", machineId, connection, ...file }),
      );
    });
  });
}

/** Any user with the one key, on any machine but the one that has another. */
function mayLogIn(machine: Machine, login: AuthContext): boolean {
  const { authorizedKey } = machine.context;
  if (
    login.method !== "publickey" ||
    machine.plan.fault === "wrong-user-key" ||
    login.key.data.length !== authorizedKey.length ||
    !timingSafeEqual(login.key.data, authorizedKey)
  ) {
    return false;
  }
  if (login.signature === undefined || login.blob === undefined) {
    return true; // Asked whether the key would do; the signature comes next.
  }
  const key = ssh2.utils.parseKey(login.key.data) as ParsedKey | Error;
  return (
    !(key instanceof Error) && key.verify(login.blob, login.signature, login.hashAlgo) === true
  );
}
