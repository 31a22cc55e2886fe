import { WaterclockError } from './error.js';

/** Lets a bounded number of calls through at a time. The others queue, first come first served, up to a bound. */
export class Gate {
  readonly #places: number;
  readonly #maxQueued: number;
  // A set keeps the order of arrival, and a caller that gives up leaves it at once.
  readonly #queue = new Set<() => void>();
  #taken = 0;

  constructor(places: number, maxOutstanding: number) {
    this.#places = Math.min(places, maxOutstanding);
    this.#maxQueued = maxOutstanding - this.#places;
  }

  /** Takes a place; `leave` gives it back. Rejects with the signal's reason if that comes first. */
  async enter(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#taken < this.#places) {
      this.#taken += 1;
      return;
    }
    if (this.#queue.size >= this.#maxQueued) throw tooManyCalls(this.#places + this.#maxQueued);
    await new Promise<void>((resolve, reject) => {
      const admit = () => {
        signal.removeEventListener('abort', giveUp);
        resolve();
      };
      const giveUp = () => {
        this.#queue.delete(admit);
        reject(signal.reason as Error);
      };
      signal.addEventListener('abort', giveUp, { once: true });
      this.#queue.add(admit);
    });
  }

  /** Hands the place to the next in the queue. */
  leave(): void {
    for (const admit of this.#queue) {
      this.#queue.delete(admit);
      admit();
      return;
    }
    this.#taken -= 1;
  }
}

export function tooManyCalls(bound: number): WaterclockError {
  return new WaterclockError(
    'unavailable',
    `${bound} calls are outstanding; raise \`maxOutstanding\`, or send fewer at a time`,
  );
}
