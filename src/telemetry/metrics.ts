import type { FailureCode, Step } from "../errors.js";
import { createInstruments } from "./instruments.js";
import { type HostKeyDecision, labelSets } from "./labels.js";
import type { Outcome } from "./outcome.js";
import type { Scrape } from "./scrape.js";

/** How one job ended. `seconds` counts from its claim. `failure` goes with the outcome `failed`. */
export interface AttemptEnd {
  readonly provider: string;
  readonly outcome: Outcome;
  readonly seconds: number;
  readonly failure?: { readonly step: Step; readonly code: FailureCode };
}

/** What a worker reports of itself. Durations are seconds; labels come from closed sets only. */
export interface Metrics {
  /** A job was taken from the queue. Each is followed by exactly one `attemptEnded`. */
  attemptStarted(): void;
  /** Call once per `attemptStarted`, after the commit: what is counted here has happened. */
  attemptEnded(end: AttemptEnd): void;
  /** A step of an attempt ended, well or badly. */
  stepEnded(step: Step, seconds: number): void;
  /** How long a job was due before it was taken. */
  jobWaited(seconds: number): void;
  /** How many attempts this worker runs at once at most. */
  setAttemptSlots(slots: number): void;
  /** The executable was sent, with so many bytes; or it was there already, and none were. */
  uploadEnded(upload: { result: "sent"; bytes: number } | { result: "skipped" }): void;
  hostKeyDecided(decision: HostKeyDecision): void;
  jobsReaped(jobs: number): void;
  /** An agent key was stored although its attempt's commit failed; or could not be stored at all. */
  keyRescued(): void;
  keyLost(): void;
  /** `sample` is asked at every scrape; it must be quick and must not throw. */
  onScrape(sample: () => Scrape): void;
  /** Everything in Prometheus' text format. */
  text(): Promise<string>;
  readonly contentType: string;
}

/**
 * The metrics of one process, in a registry of its own. `providers` are the configured names: any other
 * is counted as `other`, since the rows of a database must not grow the number of series.
 */
export function createMetrics(options: {
  readonly providers: readonly string[];
  readonly version: string;
}): Metrics {
  const samples: (() => Scrape)[] = [];
  const { registry, ...metric } = createInstruments({
    version: options.version,
    scrape: () => samples.map((sample) => sample()),
  });
  const { providers, provider } = labelSets(options.providers);
  metric.initialise(providers);

  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    onScrape: (sample) => void samples.push(sample),

    attemptStarted: () => metric.running.inc(),
    attemptEnded(end) {
      metric.running.dec();
      metric.attempts.inc({ provider: provider(end.provider), outcome: end.outcome });
      metric.attemptDuration.observe({ outcome: end.outcome }, end.seconds);
      if (end.failure !== undefined) {
        metric.failures.inc({ step: end.failure.step, code: end.failure.code });
      }
      if (end.outcome === "started") {
        metric.lastSuccess.setToCurrentTime();
      }
    },
    stepEnded: (step, seconds) => metric.stepDuration.observe({ step }, seconds),
    // The clocks of database and worker differ a little; a wait below zero is none.
    jobWaited(seconds) {
      // One infinite value would be the sum for ever.
      if (Number.isFinite(seconds)) {
        metric.jobWait.observe(Math.max(0, seconds));
      }
    },
    setAttemptSlots: (slots) => metric.slots.set(slots),
    uploadEnded(upload) {
      metric.uploads.inc({ result: upload.result });
      if (upload.result === "sent") {
        metric.uploadBytes.inc(upload.bytes);
      }
    },
    hostKeyDecided: (decision) => metric.hostKeys.inc({ decision }),
    jobsReaped: (jobs) => metric.jobsReaped.inc(jobs),
    keyRescued: () => metric.keysRescued.inc(),
    keyLost: () => metric.keysLost.inc(),
  };
}
