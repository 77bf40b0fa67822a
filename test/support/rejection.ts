import { TakeoverError } from "../../src/errors.js";

/** The TakeoverError that `work` rejects with; fails where it resolves or rejects with anything else. */
export async function failureOf(work: Promise<unknown>): Promise<TakeoverError> {
  const outcome = await work.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  if ("error" in outcome && outcome.error instanceof TakeoverError) {
    return outcome.error;
  }
  throw new Error("a TakeoverError was expected", {
    cause: "error" in outcome ? outcome.error : outcome.value,
  });
}
