import { optional } from "./option.js";
import { sshAddress } from "./ssh-address.js";
import { DATABASE_OPTIONS, WORKER_OPTIONS } from "./worker-options.js";

const { databaseUrl } = DATABASE_OPTIONS;

/** The options of `takeover check` that every check needs: what of a worker's decides how it reaches machines. */
export const DRY_CHECK_OPTIONS = {
  address: optional({
    flag: "--address",
    value: "<ip[:port]>",
    group: "Machine",
    help: "In place of MACHINE, for a dry try: an address that stands in no database, such as 10.0.7.12, 10.0.7.12:2222 or [2001:db8::7]:2222.",
    parse: sshAddress,
  }),
  agentExecutablePath: WORKER_OPTIONS.agentExecutablePath,
  agentTargetPath: WORKER_OPTIONS.agentTargetPath,
  sshKeyPath: WORKER_OPTIONS.sshKeyPath,
  sshKeyPassphrase: WORKER_OPTIONS.sshKeyPassphrase,
  sshUser: WORKER_OPTIONS.sshUser,
  hostKeyPolicy: WORKER_OPTIONS.hostKeyPolicy,
  connectTimeoutMs: WORKER_OPTIONS.connectTimeoutMs,
  handshakeTimeoutMs: WORKER_OPTIONS.handshakeTimeoutMs,
  uploadStallTimeoutMs: WORKER_OPTIONS.uploadStallTimeoutMs,
};

/** Every option of `takeover check`. */
export const CHECK_OPTIONS = {
  // Read as required where a machine id is given, and not at all for a dry try.
  databaseUrl: {
    ...databaseUrl,
    required: false,
    help: `Needed with MACHINE alone. ${databaseUrl.help}`,
  },
  ...DRY_CHECK_OPTIONS,
};
