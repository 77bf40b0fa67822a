import type { FailureCode } from "../errors.js";

/** A way in which a simulated machine is faulty. */
export interface Fault {
  /** What is the matter with the machine, to go on after "the machine". */
  readonly what: string;
  /** What a worker must make of it. */
  readonly code: FailureCode;
}

/**
 * Every way to be faulty. `no-loader` is told from an agent that exits 127 by the agent's own header: that
 * code is right for agents that name a loader or an interpreter, as the reference agent does.
 */
export const FAULTS = {
  refuse: { what: "has no SSH server on its port", code: "TAKEOVER_DIAL_REFUSED" },
  stall: { what: "accepts connections and says nothing", code: "TAKEOVER_DIAL_TIMEOUT" },
  "wrong-host-key": {
    what: "shows another host key than its row names",
    code: "TAKEOVER_DIAL_HOST_KEY_CHANGED",
  },
  "wrong-user-key": { what: "does not accept our key", code: "TAKEOVER_DIAL_AUTH_FAILED" },
  "full-disk": { what: "has no space left", code: "TAKEOVER_UPLOAD_FAILED" },
  "no-loader": {
    what: "lacks the interpreter that the agent needs",
    code: "TAKEOVER_RUN_AGENT_NOT_EXECUTABLE",
  },
  "exits-3": {
    what: "has an agent that exits 3 and says why",
    code: "TAKEOVER_RUN_AGENT_EXITED",
  },
  "rubbish-reply": { what: "answers with rubbish", code: "TAKEOVER_VERIFY_UNDECODABLE" },
  "other-machine": {
    what: "answers for another machine",
    code: "TAKEOVER_VERIFY_INIT_MISMATCH",
  },
} as const satisfies Record<string, Fault>;

export type FaultName = keyof typeof FAULTS;
export const FAULT_NAMES = Object.keys(FAULTS) as FaultName[];
