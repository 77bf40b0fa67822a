import type { Connection } from "../ssh/connection.js";
import { openConnection } from "../ssh/dial.js";
import type { ProvidedMachine } from "./machine.js";
import type { TakeoverSettings } from "./settings.js";

/** Where SSH listens unless the row says otherwise. */
const SSH_PORT = 22;

export type DialSettings = Pick<
  TakeoverSettings,
  "sshUser" | "sshKey" | "hostKeyPolicy" | "connectTimeoutMs" | "handshakeTimeoutMs"
>;

/** Where to dial, and as whom. */
export function dialTarget(
  machine: Pick<ProvidedMachine, "sshPort" | "sshUser">,
  address: string,
  { sshUser }: Pick<TakeoverSettings, "sshUser">,
): { readonly address: string; readonly port: number; readonly user: string } {
  return { address, port: machine.sshPort ?? SSH_PORT, user: machine.sshUser ?? sshUser };
}

/**
 * Logs in to the machine at `address`, under the deadlines `--agent-ssh-connect-timeout` and
 * `--ssh-handshake-timeout`, and judges its host key.
 *
 * @throws TakeoverError of the step `dial`
 */
export function dial(
  machine: ProvidedMachine,
  address: string,
  settings: DialSettings,
  signal: AbortSignal,
): Promise<Connection> {
  return openConnection(
    {
      ...dialTarget(machine, address, settings),
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
