import { isIP } from "node:net";
import { printable, Snooze, TakeoverError } from "../errors.js";
import type { Provider, Providers } from "../providers/provider.js";
import { asDuration, within } from "../ssh/deadline.js";
import type { ProvidedMachine } from "./machine.js";

/** How long a provider may take to answer, in milliseconds: its own request timeouts are shorter. */
const LOCATE_TIMEOUT_MS = 60_000;

/**
 * Asks the machine's provider where it is: an IP literal, IPv4 before IPv6.
 *
 * @throws TakeoverError of the step `locate`; Snooze where the provider says "not yet"
 */
export async function locate(
  machine: ProvidedMachine,
  providers: Providers,
  signal: AbortSignal,
): Promise<string> {
  const located = await ask(providerOf(machine, providers), machine, signal);
  switch (located.state) {
    case "not_ready":
      throw new Snooze(printable(located.reason), located.retryAfterSeconds);
    case "gone":
      throw new TakeoverError("TAKEOVER_LOCATE_GONE", printable(located.reason));
    case "ready":
      return preferred(located.addresses, machine);
  }
}

function providerOf(machine: ProvidedMachine, providers: Providers): Provider {
  const provider = providers.get(machine.provider);
  if (provider === undefined) {
    const known = [...providers.keys()].sort().join(", ");
    throw new TakeoverError(
      "TAKEOVER_LOCATE_UNKNOWN_PROVIDER",
      `no provider "${printable(machine.provider, 100)}" is known to this worker; known: ${known}`,
    );
  }
  return provider;
}

async function ask(provider: Provider, machine: ProvidedMachine, signal: AbortSignal) {
  const late = () =>
    new TakeoverError(
      "TAKEOVER_LOCATE_TIMEOUT",
      `provider ${printable(machine.provider, 100)} gave no answer within ${asDuration(LOCATE_TIMEOUT_MS)}`,
    );
  try {
    return await within({ ms: LOCATE_TIMEOUT_MS, signal, late }, provider.locate(machine, signal));
  } catch (error) {
    if (signal.aborted || error instanceof TakeoverError || error instanceof Snooze) {
      throw error;
    }
    throw new TakeoverError(
      "TAKEOVER_LOCATE_FAILED",
      `provider ${printable(machine.provider, 100)} could not be asked`,
      { cause: error },
    );
  }
}

function preferred(addresses: readonly string[], machine: ProvidedMachine): string {
  const address =
    addresses.find((candidate) => isIP(candidate) === 4) ??
    addresses.find((candidate) => isIP(candidate) === 6);
  if (address === undefined) {
    const instead = printable(addresses.join(", "), 200);
    throw new TakeoverError(
      "TAKEOVER_LOCATE_NO_ADDRESS",
      instead === ""
        ? `provider ${printable(machine.provider, 100)} has no address for the machine`
        : `not an IP address, as is needed: "${instead}"`,
    );
  }
  return address;
}
