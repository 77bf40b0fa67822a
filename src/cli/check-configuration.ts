import { BadValue } from "../config/bad-value.js";
import { DRY_CHECK_OPTIONS } from "../config/check-options.js";
import { ConfigurationFaults } from "../config/exit.js";
import {
  type Environment,
  type Flags,
  fault,
  type Reading,
  readOptions,
} from "../config/read-options.js";
import type { SshAddress } from "../config/ssh-address.js";
import { DATABASE_OPTIONS } from "../config/worker-options.js";
import type { CheckSettings } from "../takeover/check.js";
import { loadExecutable, loadSshKey } from "../worker/option-files.js";

/** What to check: a machine on record, or whatever listens at an address. */
export type CheckTarget =
  | { readonly machineId: string; readonly databaseUrl: string }
  | { readonly dryTry: SshAddress };

export interface CheckConfiguration {
  readonly target: CheckTarget;
  readonly settings: CheckSettings;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Reads the argument and the options of `takeover check` and loads the files that they point at. Throws
 * ConfigurationFaults with all that is wrong. Connects to nothing.
 */
export async function loadCheckConfiguration(
  machine: string | undefined,
  flags: Flags,
  environment: Environment,
): Promise<CheckConfiguration> {
  const { values, faults, names, complete } = readOptions(DRY_CHECK_OPTIONS, flags, environment);
  const target = readTarget(machine, flags, environment, { values, faults, names });
  const executable = await loadExecutable(
    values.agentExecutablePath,
    names.agentExecutablePath,
    faults,
  );
  const sshKey = loadSshKey(values.sshKeyPath, values.sshKeyPassphrase, names.sshKeyPath, faults);

  if (faults.length > 0 || !executable || !sshKey || !target) {
    throw new ConfigurationFaults(faults);
  }
  const options = complete();
  return {
    target,
    settings: {
      executable,
      targetPath: options.agentTargetPath,
      sshUser: options.sshUser,
      sshKey,
      hostKeyPolicy: options.hostKeyPolicy,
      connectTimeoutMs: options.connectTimeoutMs,
      handshakeTimeoutMs: options.handshakeTimeoutMs,
      uploadStallTimeoutMs: options.uploadStallTimeoutMs,
    },
  };
}

/** Undefined where it is at fault. */
function readTarget(
  machine: string | undefined,
  flags: Flags,
  environment: Environment,
  { values, faults, names }: Pick<Reading<typeof DRY_CHECK_OPTIONS>, "values" | "faults" | "names">,
): CheckTarget | undefined {
  const { address } = values;
  if (address === undefined) {
    return undefined; // Its fault is known.
  }
  if (machine === undefined) {
    if (address === null) {
      faults.push("MACHINE is missing; give a machine's id, or --address for a dry try.");
      return undefined;
    }
    return { dryTry: address };
  }
  if (address !== null) {
    faults.push(`MACHINE and ${names.address} are both given; give one of them.`);
    return undefined;
  }
  const database = readOptions(DATABASE_OPTIONS, flags, environment);
  faults.push(...database.faults);
  if (!UUID.test(machine)) {
    const bad = new BadValue("is not a machine's id", "give a UUID that stands in bmdb.machines");
    faults.push(fault("MACHINE", bad, machine));
  }
  const { databaseUrl } = database.values;
  return databaseUrl === undefined ? undefined : { machineId: machine, databaseUrl };
}
