/** What a provider needs to know of a machine to find it. */
export interface LocatableMachine {
  readonly machineId: string;
  readonly provider: string;
  readonly providerId: string;
  /** The address in the machine's row, where it has one. */
  readonly address: string | null;
}

/** A provider's answer. Texts from its API are cleaned by whoever puts them into an error. */
export type Located =
  /** Its addresses, IP literals, in the provider's order; none is an answer too. */
  | { readonly state: "ready"; readonly addresses: readonly string[] }
  /** Not yet, or not so fast: to be asked again after that time, without blame. */
  | { readonly state: "not_ready"; readonly reason: string; readonly retryAfterSeconds: number }
  /** The provider does not know the machine any more. */
  | { readonly state: "gone"; readonly reason: string };

/**
 * Who lends machines: the seam behind which their APIs stand. `locate` rejects where the provider cannot be
 * asked, and with the signal's reason when that aborts.
 */
export interface Provider {
  locate(machine: LocatableMachine, signal: AbortSignal): Promise<Located>;
}

/** The providers a worker knows, by the name that stands in a machine's row. */
export type Providers = ReadonlyMap<string, Provider>;
