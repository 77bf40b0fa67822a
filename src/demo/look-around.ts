import type { DemoResult } from "./demo-run.js";
import { machinesIn } from "./journal.js";
import type { Replica } from "./replica.js";
import { type Screen, styled } from "./screen.js";

/** What there is to look at. */
export interface Surroundings {
  readonly databaseShown: string;
  readonly replicas: readonly Replica[];
  readonly journal: string;
  /** The private key that opens the machines. */
  readonly sshKey: string;
}

/** How to look around in a demo that is left running. */
export function lookAround(
  screen: Screen,
  { report, journal }: DemoResult,
  surroundings: Surroundings,
): string[] {
  const command = (line: string) => styled(screen, "cyan", `    ${line}`);
  const started = report.find(({ agentKey }) => agentKey !== null);
  const failed = report.find(({ agentKey, code }) => agentKey === null && code !== null);
  const machine = machinesIn(journal).find(({ machineId }) => machineId === started?.machineId);
  return [
    styled(screen, "bold", "  Everything is left running until Ctrl-C. To look around:"),
    "",
    command(`psql '${surroundings.databaseShown}'`),
    command("select state, count(*) from bmdb.machine_status group by state;"),
    command("select provider_id, code, cause from bmdb.machine_status;"),
    ...(failed === undefined
      ? []
      : [
          "",
          "  Try a faulty machine again now, whatever its backoff:",
          command(`select bmdb.enqueue_takeover('${failed.machineId}');`),
        ]),
    ...(started === undefined
      ? []
      : [
          "",
          "  Have a machine taken over anew, under a new key:",
          command("delete from bmdb.machine_agent_started"),
          command(`  where machine_id = '${started.machineId}';`),
        ]),
    ...(machine === undefined
      ? []
      : [
          "",
          "  Log in to a machine:",
          command(`ssh -i ${surroundings.sshKey} -o StrictHostKeyChecking=no \\`),
          command(
            `  -o UserKnownHostsFile=/dev/null -p ${machine.port} root@127.0.0.1 ls -l /root`,
          ),
        ]),
    "",
    "  Metrics and logs of the workers, and what the machines saw:",
    ...surroundings.replicas.flatMap(({ metricsUrl, log }) => [command(metricsUrl), command(log)]),
    command(surroundings.journal),
  ];
}
