import type { Connection } from "../ssh/connection.js";
import { openConnection } from "../ssh/dial.js";
import type { ProvidedMachine } from "./machine.js";
import type { TakeoverSettings } from "./settings.js";

/** Where SSH listens unless the row says otherwise. */
const SSH_PORT = 22;

/**
 * Logs in to the machine at `address`, under the deadlines `--agent-ssh-connect-timeout` and
 * `--ssh-handshake-timeout`, and judges its host key.
 *
 * @throws TakeoverError of the step `dial`
 */
export function dial(
  machine: ProvidedMachine,
  address: string,
  settings: TakeoverSettings,
  signal: AbortSignal,
): Promise<Connection> {
  return openConnection(
    {
      address,
      port: machine.sshPort ?? SSH_PORT,
      user: machine.sshUser ?? settings.sshUser,
      key: settings.sshKey,
      hostKey: {
        policy: settings.hostKeyPolicy,
        required: machine.requiredHostKey,
        recorded: machine.recordedHostKey,
      },
      connectTimeoutMs: settings.connectTimeoutMs,
      handshakeTimeoutMs: settings.handshakeTimeoutMs,
    },
    signal,
  );
}
