/**
 * A bound on bytes that are in flight at once, over all attempts of the process: memory then depends neither
 * on the number of attempts nor on the executable's size. First come, first served.
 */
export class ByteBudget {
  #free: number;
  readonly #waiting: { readonly bytes: number; go(): void }[] = [];

  constructor(bytes: number) {
    this.#free = bytes;
  }

  /**
   * Takes so many bytes, as soon as they are free; to be given back by `give`. Those who hold some give them
   * back within `--upload-stall-timeout`, so the wait needs no deadline of its own.
   *
   * @throws the signal's reason where it aborts
   */
  take(bytes: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) {
      return Promise.reject(signal.reason);
    }
    if (this.#waiting.length === 0 && this.#free >= bytes) {
      this.#free -= bytes;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(entry), 1);
        reject(signal.reason);
        this.#serve();
      };
      const entry = {
        bytes,
        go: () => {
          signal.removeEventListener("abort", onAbort);
          resolve();
        },
      };
      this.#waiting.push(entry);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }

  give(bytes: number): void {
    this.#free += bytes;
    this.#serve();
  }

  #serve(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (next.bytes > this.#free) {
        return;
      }
      this.#waiting.shift();
      this.#free -= next.bytes;
      next.go();
    }
  }
}
