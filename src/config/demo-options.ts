import { databaseUrl } from "./database-url.js";
import { parseDuration } from "./duration.js";
import { optional, required, toggle, withDefault } from "./option.js";
import { localPath, wholeNumber } from "./parsers.js";

const FLEET = "Fleet";
const DATABASE = "Database";
const RUN = "Run";

/** The ports that a user may take, and as many machines. */
const FIRST_PORT = 1024;
const LAST_PORT = 65_535;
const MOST_MACHINES = 20_000;

const machines = withDefault({
  flag: "--machines",
  value: "<count>",
  group: FLEET,
  help: "How many machines to simulate, each a real SSH server on 127.0.0.1.",
  fallback: "25",
  parse: wholeNumber(1, MOST_MACHINES),
});

const wait = (text: string) => parseDuration(text);

/** Every option of `takeover fleet`. */
export const FLEET_OPTIONS = {
  machines,
  faulty: withDefault({
    flag: "--faulty",
    value: "<count>",
    group: FLEET,
    help: "How many of them are faulty, each in one of several ways.",
    fallback: "0",
    parse: wholeNumber(0, MOST_MACHINES),
  }),
  seed: withDefault({
    flag: "--seed",
    value: "<number>",
    group: FLEET,
    help: "What ids, host keys and faults are derived from: the same seed makes the same machines.",
    fallback: "1",
    parse: wholeNumber(0, 999_999_999),
  }),
  portBase: optional({
    flag: "--port-base",
    value: "<port>",
    group: FLEET,
    help: "The first machine's port, the others following. Without it, any that are free.",
    parse: wholeNumber(FIRST_PORT, LAST_PORT),
  }),
  latencyMs: optional({
    flag: "--latency",
    value: "<duration>",
    group: FLEET,
    help: "Added to every answer of a machine, as by a network of that round trip.",
    parse: wait,
  }),
  authorizedKey: required({
    flag: "--authorized-key",
    value: "<file>",
    group: FLEET,
    help: "The public key that opens the machines: the line that `takeover keygen` prints.",
    parse: localPath,
  }),
  journal: optional({
    flag: "--journal",
    value: "<file>",
    group: FLEET,
    help: "Where to append, as JSON lines, every connection, upload, and begin and end of a run.",
    parse: localPath,
  }),
  inProcessAgent: optional({
    flag: "--in-process-agent",
    value: "<file>",
    group: FLEET,
    help: "For fleets of thousands: where the file that was uploaded is this one, its answer is made in the fleet's process and no agent is started.",
    parse: localPath,
  }),
  register: toggle({
    flag: "--register",
    group: DATABASE,
    help: "Insert the machines into the database, or give them their new ports there. They stay when the fleet ends.",
  }),
  databaseUrl: optional({
    flag: "--database-url",
    environment: "DATABASE_URL",
    value: "<url>",
    group: DATABASE,
    help: "Postgres, for --register alone.",
    secret: true,
    parse: databaseUrl,
  }),
};

/** Every option of `takeover demo`. */
export const DEMO_OPTIONS = {
  machines,
  faulty: optional({
    flag: "--faulty",
    value: "<count>",
    group: FLEET,
    help: "How many of them are faulty, each in one of several ways. Three if there are 24 or more, else one in eight.",
    parse: wholeNumber(0, MOST_MACHINES),
  }),
  workers: withDefault({
    flag: "--workers",
    value: "<count>",
    group: RUN,
    help: "How many worker processes share the work.",
    fallback: "2",
    parse: wholeNumber(1, 20),
  }),
  timeoutMs: withDefault({
    flag: "--timeout",
    value: "<duration>",
    group: RUN,
    help: "How long the takeovers may take together.",
    fallback: "2m",
    parse: wait,
  }),
  keep: toggle({
    flag: "--keep",
    group: RUN,
    help: "Leave everything running afterwards, tell how to look around, and end on Ctrl-C.",
  }),
  databaseUrl: optional({
    flag: "--database-url",
    // Not DATABASE_URL: a demo must not put its machines into whatever database a shell happens to point at.
    environment: "TAKEOVER_DEMO_DATABASE_URL",
    value: "<url>",
    group: DATABASE,
    help: "A Postgres of yours in place of one that the demo starts. It is migrated; machines and logins of the demo are taken out again at the end.",
    secret: true,
    parse: databaseUrl,
  }),
};
