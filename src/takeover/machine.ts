/** A row of `bmdb.machine_provided`, as the steps see it. */
export interface ProvidedMachine {
  readonly machineId: string;
  readonly provider: string;
  readonly providerId: string;
  /** An IP literal, where the row has one. */
  readonly address: string | null;
  /** 22 where null. */
  readonly sshPort: number | null;
  /** The worker's `--ssh-user` where null. */
  readonly sshUser: string | null;
  /** `<type> <base64>`: the key that must be shown, whatever the policy; null where the row names none. */
  readonly requiredHostKey: string | null;
  /** `<type> <base64>`: what the machine showed at an earlier takeover, if there was one. */
  readonly recordedHostKey: string | null;
}
