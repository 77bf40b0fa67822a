/** The agent's file as it was when the worker started; each upload is checked against it. */
export interface AgentExecutable {
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** SHA-256 of the content, lower-case hex. */
  readonly sha256: string;
}
