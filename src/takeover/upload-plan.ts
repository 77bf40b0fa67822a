import type { AgentExecutable } from "./agent-executable.js";

/** What goes where in one upload. */
export interface UploadPlan {
  readonly executable: AgentExecutable;
  readonly targetPath: string;
  /** What all temporary names for this machine begin with, and the one of this attempt. */
  readonly tempPrefix: string;
  readonly tempPath: string;
}
