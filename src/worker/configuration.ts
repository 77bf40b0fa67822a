import { statSync } from "node:fs";
import { type Certificate, parseCertificate } from "../config/certificate.js";
import { formatDuration } from "../config/duration.js";
import { ConfigurationFaults } from "../config/exit.js";
import type { LogLevel } from "../config/log-level.js";
import type { Values } from "../config/option.js";
import { readFile } from "../config/read-file.js";
import { type Environment, type Flags, readOptions } from "../config/read-options.js";
import { WORKER_OPTIONS } from "../config/worker-options.js";
import type { TakeoverSettings } from "../takeover/settings.js";
import { loadExecutable, loadFile, loadSshKey } from "./option-files.js";

/** All that a worker is told, checked and loaded. Times are milliseconds. */
export interface WorkerConfiguration {
  readonly databaseUrl: string;
  readonly takeover: TakeoverSettings;
  readonly concurrency: number;
  readonly attemptTimeoutMs: number;
  readonly shutdownGraceMs: number;
  readonly historyRetentionMs: number;
  /** Null where it is turned off. */
  readonly http: { readonly address: string; readonly port: number } | null;
  readonly logLevel: LogLevel;
  /** What is allowed and yet deserves a line in the log. */
  readonly warnings: readonly string[];
}

type Options = Values<typeof WORKER_OPTIONS>;

const LONGEST_CERTIFICATE = 256 * 1024;

/**
 * Reads the options of `takeover worker` and loads the files that they point at. Throws
 * ConfigurationFaults with all that is wrong. Connects to nothing.
 */
export async function loadWorkerConfiguration(
  flags: Flags,
  environment: Environment,
): Promise<WorkerConfiguration> {
  const { values, faults, names, complete } = readOptions(WORKER_OPTIONS, flags, environment);

  const executable = await loadExecutable(
    values.agentExecutablePath,
    names.agentExecutablePath,
    faults,
  );
  const certificate = loadFile(
    values.agentCaCertificatePath,
    names.agentCaCertificatePath,
    faults,
    (path) => parseCertificate(readFile(path, LONGEST_CERTIFICATE)),
  );
  const sshKey = loadSshKey(values.sshKeyPath, values.sshKeyPassphrase, names.sshKeyPath, faults);

  if (faults.length > 0 || !executable || !sshKey || certificate === undefined) {
    throw new ConfigurationFaults(faults);
  }
  const options = complete();
  return {
    databaseUrl: options.databaseUrl,
    takeover: {
      executable,
      targetPath: options.agentTargetPath,
      endpoint: options.agentEndpoint,
      caCertificate: certificate?.der ?? new Uint8Array(),
      sshUser: options.sshUser,
      sshKey,
      hostKeyPolicy: options.hostKeyPolicy,
      connectTimeoutMs: options.connectTimeoutMs,
      handshakeTimeoutMs: options.handshakeTimeoutMs,
      uploadStallTimeoutMs: options.uploadStallTimeoutMs,
      execTimeoutMs: options.execTimeoutMs,
      acceptFirstGenerationAgents: options.acceptFirstGenerationAgents,
    },
    concurrency: options.concurrency,
    attemptTimeoutMs: options.attemptTimeoutMs,
    shutdownGraceMs: options.shutdownGraceMs,
    historyRetentionMs: options.historyRetentionMs,
    http: options.httpPort === 0 ? null : { address: options.httpAddress, port: options.httpPort },
    logLevel: options.logLevel,
    warnings: warningsOf(options, certificate),
  };
}

function warningsOf(options: Options, certificate: Certificate | null): string[] {
  const warnings: string[] = [];
  const { connectTimeoutMs, handshakeTimeoutMs, execTimeoutMs, attemptTimeoutMs } = options;
  const longestQuietWay = connectTimeoutMs + handshakeTimeoutMs + execTimeoutMs;
  // Not a fault: a hard bound on the whole is a sound wish, only its failures tell less.
  if (attemptTimeoutMs <= longestQuietWay) {
    warnings.push(
      `--attempt-timeout (${formatDuration(attemptTimeoutMs)}) ends an attempt before --agent-ssh-connect-timeout, --ssh-handshake-timeout and --agent-ssh-exec-timeout together (${formatDuration(longestQuietWay)}) can`,
    );
  }
  if (options.hostKeyPolicy === "insecure") {
    warnings.push("--host-key-policy insecure: anybody on the way can pose as a machine");
  }
  if (certificate?.expired) {
    warnings.push("--agent-ca-certificate-path: the certificate has expired");
  }
  if ((statSync(options.sshKeyPath).mode & 0o007) !== 0) {
    warnings.push("--ssh-key-path: every user of this computer can read the private key");
  }
  return warnings;
}
