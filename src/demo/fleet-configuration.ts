import { BadValue } from "../config/bad-value.js";
import { FLEET_OPTIONS } from "../config/demo-options.js";
import { ConfigurationFaults } from "../config/exit.js";
import { readFile } from "../config/read-file.js";
import { type Environment, type Flags, fault, readOptions } from "../config/read-options.js";
import { printable } from "../errors.js";
import { parseHostKey } from "../ssh/host-key.js";
import { loadAgentExecutable } from "../takeover/agent-executable.js";
import type { FleetOptions } from "./fleet.js";

export interface FleetConfiguration {
  readonly fleet: FleetOptions;
  /** Where to insert the machines; null for nowhere. */
  readonly registerAt: string | null;
}

const LAST_PORT = 65_535;
const LONGEST_PUBLIC_KEY = 16 * 1024;

/** Reads the options of `takeover fleet`. Throws ConfigurationFaults with all that is wrong. */
export async function loadFleetConfiguration(
  flags: Flags,
  environment: Environment,
): Promise<FleetConfiguration> {
  const { values, faults, names, complete } = readOptions(FLEET_OPTIONS, flags, environment);
  const { machines, faulty, portBase, authorizedKey, inProcessAgent } = values;

  if (machines !== undefined && faulty !== undefined && faulty > machines) {
    faults.push(`${names.faulty}: there are only ${machines} machines; give a number up to that.`);
  }
  if (machines !== undefined && portBase && portBase + machines - 1 > LAST_PORT) {
    faults.push(
      `${names.portBase}: ${machines} ports from ${portBase} on go beyond ${LAST_PORT}; begin lower.`,
    );
  }
  if (values.register && values.databaseUrl === null) {
    faults.push(`${names.register} needs a database; give --database-url, or set DATABASE_URL.`);
  }
  let key: Buffer | undefined;
  if (authorizedKey !== undefined) {
    try {
      key = readPublicKey(authorizedKey);
    } catch (error) {
      faults.push(fault(names.authorizedKey, error, authorizedKey));
    }
  }
  let agent: string | null | undefined = null;
  if (inProcessAgent) {
    agent = await loadAgentExecutable(inProcessAgent).then(
      ({ sha256 }) => sha256,
      (error: Error) => {
        faults.push(`${names.inProcessAgent}: ${printable(error.message)}; give the agent's file.`);
        return undefined;
      },
    );
  }
  if (faults.length > 0 || key === undefined || agent === undefined) {
    throw new ConfigurationFaults(faults);
  }
  const options = complete();
  return {
    fleet: {
      machines: options.machines,
      faulty: options.faulty,
      seed: options.seed,
      portBase: options.portBase,
      latencyMs: options.latencyMs ?? 0,
      authorizedKey: key,
      journalPath: options.journal,
      inProcessAgent: agent,
    },
    registerAt: options.register ? options.databaseUrl : null,
  };
}

/** The key of a public line, in SSH's wire format. Throws BadValue. */
function readPublicKey(path: string): Buffer {
  const key = parseHostKey(readFile(path, LONGEST_PUBLIC_KEY).toString("utf8"));
  if (key === null) {
    throw new BadValue(
      "holds no public key",
      "give a file with the line that `takeover keygen` prints, such as PATH.pub",
    );
  }
  return key.blob;
}
