import { databaseUrl } from "./database-url.js";
import { LONGEST_SPAN_MS, parseDuration } from "./duration.js";
import { HOST_KEY_POLICIES } from "./host-key-policy.js";
import { LOG_LEVELS } from "./log-level.js";
import { environmentSecret, optional, required, toggle, withDefault } from "./option.js";
import {
  line,
  listenAddress,
  localPath,
  oneOf,
  targetPath,
  userName,
  wholeNumber,
} from "./parsers.js";

const DATABASE = "Database";
const AGENT = "Agent";
const SSH = "SSH";
const LIMITS = "Attempts";
const WATCHING = "Watching";

/** A wait with a deadline. */
const wait = (text: string) => parseDuration(text);
/** A span of time that is computed with, not waited for. */
const span = (text: string) => parseDuration(text, LONGEST_SPAN_MS);

/** Options of every command that works with the database. */
export const DATABASE_OPTIONS = {
  databaseUrl: required({
    flag: "--database-url",
    environment: "DATABASE_URL",
    value: "<url>",
    group: DATABASE,
    help: "Postgres, as postgres://user:password@host:5432/database. A command line can be read by others on the computer: with a password in it, prefer the environment.",
    secret: true,
    parse: databaseUrl,
  }),
};

/** Every option of `takeover worker`. */
export const WORKER_OPTIONS = {
  ...DATABASE_OPTIONS,
  historyRetentionMs: withDefault({
    flag: "--history-retention",
    value: "<duration>",
    group: DATABASE,
    help: "How long the history of attempts is kept.",
    fallback: "90d",
    parse: span,
  }),

  agentExecutablePath: required({
    flag: "--agent-executable-path",
    value: "<file>",
    group: AGENT,
    help: "The agent to put on each machine: a file on this computer.",
    parse: localPath,
  }),
  agentTargetPath: withDefault({
    flag: "--agent-target-path",
    value: "<path>",
    group: AGENT,
    help: "Where it goes on the machine: an absolute path. Its folder is made where it is missing.",
    fallback: "/root/agent",
    parse: targetPath,
  }),
  agentEndpoint: required({
    flag: "--agent-endpoint",
    value: "<endpoint>",
    group: AGENT,
    help: "What the agent is told to report to, such as control.example:8443.",
    parse: line(1024),
  }),
  agentCaCertificatePath: optional({
    flag: "--agent-ca-certificate-path",
    value: "<file>",
    group: AGENT,
    help: "A certificate, PEM or DER, by which the agent knows that endpoint.",
    parse: localPath,
  }),
  acceptFirstGenerationAgents: toggle({
    flag: "--accept-first-generation-agents",
    group: AGENT,
    help: "Accept agents that echo only the first three fields of their init.",
  }),

  sshKeyPath: required({
    flag: "--ssh-key-path",
    value: "<file>",
    group: SSH,
    help: "The private key that opens the machines; `takeover keygen` makes one.",
    parse: localPath,
  }),
  sshKeyPassphrase: environmentSecret({
    environment: "TAKEOVER_SSH_KEY_PASSPHRASE",
    group: SSH,
    help: "The passphrase of that key, where it has one. No flag takes it.",
  }),
  sshUser: withDefault({
    flag: "--ssh-user",
    value: "<name>",
    group: SSH,
    help: "Whom to log in as, unless a machine's row says otherwise.",
    fallback: "root",
    parse: userName,
  }),
  hostKeyPolicy: withDefault({
    flag: "--host-key-policy",
    value: "<policy>",
    group: SSH,
    help: "accept-new: record a machine's first host key, refuse another later. pinned: only a key that is on record. insecure: any.",
    fallback: "accept-new",
    parse: oneOf("a host key policy", HOST_KEY_POLICIES),
  }),
  connectTimeoutMs: withDefault({
    flag: "--agent-ssh-connect-timeout",
    value: "<duration>",
    group: SSH,
    help: "For the TCP connection.",
    fallback: "2s",
    parse: wait,
  }),
  handshakeTimeoutMs: withDefault({
    flag: "--ssh-handshake-timeout",
    value: "<duration>",
    group: SSH,
    help: "From there to being logged in.",
    fallback: "15s",
    parse: wait,
  }),

  concurrency: withDefault({
    flag: "--concurrency",
    value: "<count>",
    group: LIMITS,
    help: "Attempts at once, 1 to 1000. Each holds a database connection.",
    fallback: "10",
    parse: wholeNumber(1, 1000),
  }),
  uploadStallTimeoutMs: withDefault({
    flag: "--upload-stall-timeout",
    value: "<duration>",
    group: LIMITS,
    help: "Without a byte acknowledged, an upload fails.",
    fallback: "15s",
    parse: wait,
  }),
  execTimeoutMs: withDefault({
    flag: "--agent-ssh-exec-timeout",
    value: "<duration>",
    group: LIMITS,
    help: "From the agent's start to its reply.",
    fallback: "60s",
    parse: wait,
  }),
  attemptTimeoutMs: withDefault({
    flag: "--attempt-timeout",
    value: "<duration>",
    group: LIMITS,
    help: "For a whole attempt, whatever it waits for.",
    fallback: "15m",
    parse: wait,
  }),
  shutdownGraceMs: withDefault({
    flag: "--shutdown-grace",
    value: "<duration>",
    group: LIMITS,
    help: "How long running attempts may go on after SIGTERM or SIGINT.",
    fallback: "30s",
    parse: wait,
  }),

  httpAddress: withDefault({
    flag: "--http-address",
    value: "<address>",
    group: WATCHING,
    help: "Where /metrics, /livez and /readyz are served.",
    fallback: "127.0.0.1",
    parse: listenAddress,
  }),
  httpPort: withDefault({
    flag: "--http-port",
    value: "<port>",
    group: WATCHING,
    help: "Its port; 0 turns it off.",
    fallback: "9464",
    parse: wholeNumber(0, 65535),
  }),
  logLevel: withDefault({
    flag: "--log-level",
    value: "<level>",
    group: WATCHING,
    help: `One of ${LOG_LEVELS.join(", ")}.`,
    fallback: "info",
    parse: oneOf("a log level", LOG_LEVELS),
  }),
};
