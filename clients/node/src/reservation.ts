import { validateCost } from './arguments.js';
import type { Cost, Decision } from './decision.js';
import { WaterclockError } from './error.js';

/** How a reservation reaches the server that made it. */
export interface Settlement {
  commit(id: string, cost: Cost): Promise<void>;
  cancel(id: string): Promise<void>;
}

/** Does nothing: for reservations that the fail mode made up. */
export const noSettlement: Settlement = {
  async commit() {},
  async cancel() {},
};

/**
 * Units that are reserved, or the refusal to reserve them.
 *
 * With `await using`, a reservation that was not settled stays charged at its estimate when the block ends, however it
 * ends: JavaScript does not say whether an exception ended it. `Client.reserved` cancels on an exception.
 */
export class Reservation implements AsyncDisposable {
  readonly decision: Decision;
  /** `null`: refused, nothing is reserved. */
  readonly id: string | null;
  /** When the reservation expires, counted from the answer; `null` if nothing is reserved. */
  readonly expiresInMs: number | null;
  readonly #settlement: Settlement;
  #settled: boolean;

  constructor(decision: Decision, id: string | null, expiresInMs: number | null, settlement: Settlement) {
    this.decision = decision;
    this.id = id;
    this.expiresInMs = expiresInMs;
    this.#settlement = settlement;
    this.#settled = id === null;
  }

  /** Whether units are reserved. A partial grant reserves `decision.granted`. */
  get reserved(): boolean {
    return this.id !== null;
  }

  /** Charges what was used, into debt if it is more than was reserved; without a cost, what was reserved. */
  async commit(cost: Cost = this.decision.granted): Promise<void> {
    const id = this.#held();
    // A cost that is not sent settles nothing.
    validateCost(cost);
    this.#settled = true;
    await this.#settlement.commit(id, cost);
  }

  /** Gives everything back. */
  async cancel(): Promise<void> {
    const id = this.#held();
    this.#settled = true;
    await this.#settlement.cancel(id);
  }

  /**
   * Commits what was reserved, unless the reservation was settled or refused. It never rejects: the work is done, and
   * its result matters more. A reservation that cannot be reached any more expires.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#settled) await this.commit().catch(() => {});
  }

  /** Cancels, unless the reservation was settled or refused. It never rejects, for the same reason. */
  async abandon(): Promise<void> {
    if (!this.#settled) await this.cancel().catch(() => {});
  }

  #held(): string {
    if (this.id !== null) return this.id;
    throw new WaterclockError(
      'invalid',
      `nothing is reserved for \`${this.decision.key}\` of \`${this.decision.policy}\`; test \`reserved\` before you settle`,
    );
  }
}
