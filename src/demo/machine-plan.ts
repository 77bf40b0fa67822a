import { createHash, createPrivateKey } from "node:crypto";
import { type Ed25519Pair, ed25519PublicLine } from "../ssh/openssh-key.js";
import { FAULT_NAMES, type FaultName } from "./faults.js";

/** A simulated machine before it runs: all that follows from the seed and its number. */
export interface PlannedMachine {
  /** From 1. */
  readonly number: number;
  readonly machineId: string;
  readonly providerId: string;
  readonly fault: FaultName | null;
  /** What its row demands as `ssh_host_key`: null, or another key than the machine has. */
  readonly demandedHostKey: string | null;
}

export interface FleetPlan {
  readonly machines: number;
  readonly faulty: number;
  readonly seed: number;
}

/** PKCS#8 of an Ed25519 private key is this and its 32 bytes, RFC 8410, section 7. */
const PKCS8_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");

/**
 * The machines of a fleet. The same seed gives the same ids, host keys and faults, so that a fleet that was
 * ended and started again is the same to whoever dials it, and a run that went wrong can be had again.
 */
export function planMachines({ machines, faulty, seed }: FleetPlan): PlannedMachine[] {
  const numbers = Array.from({ length: machines }, (_, index) => index + 1);
  const byLot = (a: number | string, b: number | string) =>
    digest(seed, `lot ${a}`).compare(digest(seed, `lot ${b}`));
  const kinds = FAULT_NAMES.toSorted(byLot);
  const faults = new Map(
    numbers
      .toSorted(byLot)
      .slice(0, faulty)
      .map((number, index) => [number, kinds[index % kinds.length] ?? null]),
  );
  const digits = String(machines).length;
  return numbers.map((number) => {
    const fault = faults.get(number) ?? null;
    return {
      number,
      machineId: uuid(digest(seed, `machine ${number}`)),
      providerId: `sim-${seed}-${String(number).padStart(digits, "0")}`,
      fault,
      demandedHostKey:
        fault === "wrong-host-key"
          ? ed25519PublicLine(pairOf(digest(seed, `demanded host key ${number}`)).publicKey)
          : null,
    };
  });
}

/** The host key of a machine: nothing secret, since anybody can work it out from the seed. */
export function hostKeyPair(seed: number, number: number): Ed25519Pair {
  return pairOf(digest(seed, `host key ${number}`));
}

function pairOf(seed: Buffer): Ed25519Pair {
  const key = createPrivateKey({
    key: Buffer.concat([PKCS8_HEAD, seed]),
    format: "der",
    type: "pkcs8",
  });
  return { publicKey: Buffer.from(key.export({ format: "jwk" }).x ?? "", "base64url"), seed };
}

function digest(seed: number, what: string): Buffer {
  return createHash("sha256").update(`takeover fleet ${seed}: ${what}`).digest();
}

/** A UUID of version 8, RFC 9562, section 5.8: of our own making. */
function uuid(bytes: Buffer): string {
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = bytes.toString("hex", 0, 16);
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
