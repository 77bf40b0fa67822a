/** A value that cannot be used: what is the matter with it, and what to do. Neither quotes the value. */
export class BadValue extends Error {
  override readonly name = "BadValue";
  readonly remedy: string;

  /** `problem` continues a sentence that begins with the value: "is not a duration". */
  constructor(problem: string, remedy: string, options?: { cause: unknown }) {
    super(problem, options);
    this.remedy = remedy;
  }
}
