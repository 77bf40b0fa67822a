import { randomBytes } from "node:crypto";
import { takeover } from "#proto/takeover";
import type { ProvidedMachine } from "./machine.js";
import type { TakeoverSettings } from "./settings.js";

/** Bytes of the nonce: fresh for each attempt, so that an echo of it is this run's and no earlier one's. */
const NONCE_BYTES = 16;

/** What an agent is told, field by field. */
export interface TakeoverInit {
  readonly provider: string;
  readonly providerId: string;
  readonly bmaasEndpoint: string;
  readonly machineId: string;
  readonly caCertificate: Uint8Array;
  readonly nonce: Uint8Array;
}

/** The init for one attempt on one machine. */
export function buildInit(machine: ProvidedMachine, settings: TakeoverSettings): TakeoverInit {
  return {
    provider: machine.provider,
    providerId: machine.providerId,
    bmaasEndpoint: settings.endpoint,
    machineId: machine.machineId,
    caCertificate: settings.caCertificate,
    nonce: randomBytes(NONCE_BYTES),
  };
}

export function encodeInit(init: TakeoverInit): Buffer {
  return Buffer.from(takeover.TakeoverInit.encode(init).finish());
}
