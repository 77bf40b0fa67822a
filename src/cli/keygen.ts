import type { Command } from "commander";
import { ConfigurationFaults, EXIT, type ExitCode } from "../config/exit.js";
import { fault } from "../config/read-options.js";
import type { Terminal } from "./terminal.js";

const COMMENT = "takeover";

/** `takeover keygen PATH`: a key pair for a worker; the public line is all it prints. */
export function addKeygenCommand(
  program: Command,
  terminal: Terminal,
  end: (code: ExitCode) => void,
): void {
  program
    .command("keygen")
    .summary("make an SSH key pair for the workers")
    .description(
      "Makes an Ed25519 key pair in OpenSSH's format: the private key at PATH, the public one at PATH.pub. Prints the public line, which is what a machine must accept. Never overwrites a file.",
    )
    .argument("<PATH>", "where to put the private key")
    .action(async (path: string) => {
      // Not before it is needed: other commands start without its packages.
      const { createKeyPair } = await import("../ssh/keygen.js");
      try {
        terminal.out(`${createKeyPair(path, COMMENT)}\n`);
      } catch (error) {
        throw new ConfigurationFaults([fault("PATH", error, path)]);
      }
      end(EXIT.done);
    });
}
