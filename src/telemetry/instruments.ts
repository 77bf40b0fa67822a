import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { FAILURES, STEPS } from "../errors.js";
import { HOST_KEY_DECISIONS, UPLOAD_RESULTS } from "./labels.js";
import { OUTCOMES } from "./outcome.js";
import { POOLS, type Scrape } from "./scrape.js";

const ATTEMPT_BUCKETS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600];
const STEP_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];
/** From a notified pick-up to a queue that is an hour behind. */
const WAIT_BUCKETS = [0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 900, 3600];

/** The table of metrics, each in a registry that belongs to nobody else. */
export function createInstruments(options: { version: string; scrape: () => Scrape[] }) {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });

  const instruments = {
    attempts: new Counter({
      name: "takeover_attempts_total",
      help: "Jobs that ended, by provider and outcome.",
      labelNames: ["provider", "outcome"],
      registers,
    }),
    failures: new Counter({
      name: "takeover_failures_total",
      help: "Attempts that failed, by step and failure code.",
      labelNames: ["step", "code"],
      registers,
    }),
    attemptDuration: new Histogram({
      name: "takeover_attempt_duration_seconds",
      help: "From the claim of a machine to the end of its transaction, by outcome.",
      labelNames: ["outcome"],
      buckets: ATTEMPT_BUCKETS,
      registers,
    }),
    stepDuration: new Histogram({
      name: "takeover_step_duration_seconds",
      help: "How long a step took, whether it went well or not.",
      labelNames: ["step"],
      buckets: STEP_BUCKETS,
      registers,
    }),
    jobWait: new Histogram({
      name: "takeover_job_wait_seconds",
      help: "How long a job was due before a worker took it.",
      buckets: WAIT_BUCKETS,
      registers,
    }),
    running: new Gauge({
      name: "takeover_attempts_running",
      help: "Jobs that this worker is executing.",
      registers,
    }),
    slots: new Gauge({
      name: "takeover_attempt_slots",
      help: "How many jobs this worker executes at once at most.",
      registers,
    }),
    uploads: new Counter({
      name: "takeover_uploads_total",
      help: "Agent executables sent, or skipped since the machine had them.",
      labelNames: ["result"],
      registers,
    }),
    uploadBytes: new Counter({
      name: "takeover_upload_bytes_total",
      help: "Bytes of agent executables sent.",
      registers,
    }),
    hostKeys: new Counter({
      name: "takeover_host_keys_total",
      help: "Host keys that machines showed, by what was decided.",
      labelNames: ["decision"],
      registers,
    }),
    jobsReaped: new Counter({
      name: "takeover_jobs_reaped_total",
      help: "Jobs freed from workers whose session had lapsed.",
      registers,
    }),
    keysRescued: new Counter({
      name: "takeover_keys_rescued_total",
      help: "Agent keys that were stored after their attempt's commit had failed.",
      registers,
    }),
    keysLost: new Counter({
      name: "takeover_keys_lost_total",
      help: "Agent keys that could not be stored; each is in the log.",
      registers,
    }),
    lastSuccess: new Gauge({
      name: "takeover_last_success_timestamp_seconds",
      help: "When this worker last put an agent key on record; 0 if it never did.",
      registers,
    }),
  };

  const listenConnected = new Gauge({
    name: "takeover_listen_connected",
    help: "1 while the connection that hears of new jobs is up.",
    registers,
    collect() {
      this.set(options.scrape().some((sample) => sample.listenConnected === true) ? 1 : 0);
    },
  });
  const poolConnections = new Gauge({
    name: "takeover_pool_connections",
    help: "Database connections: in use, idle; and callers waiting for one.",
    labelNames: ["pool", "state"],
    registers,
    collect() {
      for (const { pools } of options.scrape()) {
        for (const pool of POOLS) {
          const counts = pools?.[pool];
          if (counts !== undefined) {
            this.set({ pool, state: "used" }, counts.totalCount - counts.idleCount);
            this.set({ pool, state: "idle" }, counts.idleCount);
            this.set({ pool, state: "waiting" }, counts.waitingCount);
          }
        }
      }
    },
  });
  new Gauge({
    name: "takeover_build_info",
    help: "Always 1; what runs is in the labels.",
    labelNames: ["version", "node"],
    registers,
  }).set({ version: options.version, node: process.versions.node }, 1);

  return {
    registry,
    ...instruments,
    listenConnected,
    poolConnections,

    /** Every series of a small closed set starts at 0: a rate over a series that did not exist is lost. */
    initialise(providers: readonly string[]): void {
      for (const outcome of OUTCOMES) {
        for (const provider of providers) {
          instruments.attempts.inc({ provider, outcome }, 0);
        }
        instruments.attemptDuration.zero({ outcome });
      }
      for (const [code, { step }] of Object.entries(FAILURES)) {
        instruments.failures.inc({ step, code }, 0);
      }
      for (const step of STEPS) {
        instruments.stepDuration.zero({ step });
      }
      for (const result of UPLOAD_RESULTS) {
        instruments.uploads.inc({ result }, 0);
      }
      for (const decision of HOST_KEY_DECISIONS) {
        instruments.hostKeys.inc({ decision }, 0);
      }
    },
  };
}
