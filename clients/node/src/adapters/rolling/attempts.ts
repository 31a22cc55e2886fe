import type { Client } from '../../client.js';
import type { Decision, LimitState } from '../../decision.js';
import { boundedKey } from '../key.js';
import { policyName, rollingWindow, type NumbersPolicy } from '../policy/numbers.js';
import { Policies, type OneLimitOptions } from '../policy/policies.js';

export type Id = number | string;

export interface RateLimiterOptions extends OneLimitOptions {
  /** What keys begin with (""). */
  readonly namespace?: string | undefined;
  /** Milliseconds. */
  readonly interval: number;
  readonly maxInInterval: number;
  /** Milliseconds between two actions (0). */
  readonly minDifference?: number | undefined;
}

export interface RateLimitInfo {
  readonly blocked: boolean;
  readonly blockedDueToCount: boolean;
  readonly blockedDueToMinDifference: boolean;
  /** Rounded up; at least `minDifference`, even if the action was allowed. Infinity: never. */
  readonly millisecondsUntilAllowed: number;
  readonly actionsRemaining: number;
}

export interface Attempt extends RateLimitInfo {
  /** What `actionsRemaining` would be if it could be negative. */
  readonly actionsLeft: number;
}

const COUNT = 'count';
const MIN_DIFFERENCE = 'min-difference';

/** Attempts of actions, of which blocked ones count, too. */
export class Attempts {
  readonly #client: Client;
  readonly #policies: Policies;
  readonly #policy: string | undefined;
  readonly #numbers: NumbersPolicy;
  readonly #namespace: string;
  readonly #interval: number;
  readonly #maxInInterval: number;
  readonly #minDifference: number;

  constructor(options: RateLimiterOptions) {
    const { interval, maxInInterval, minDifference = 0 } = options;
    if (!(interval > 0)) throw new RangeError(`\`interval\` is ${interval}; it must be positive`);
    if (!(maxInInterval > 0)) throw new RangeError(`\`maxInInterval\` is ${maxInInterval}; it must be positive`);
    if (!(minDifference >= 0)) throw new RangeError(`\`minDifference\` is ${minDifference}; it must not be negative`);
    this.#client = options.client;
    this.#policies = new Policies(options.client, options.warn);
    this.#policy = options.policy;
    this.#numbers = numbersOf(interval, maxInInterval, minDifference);
    this.#namespace = options.namespace ?? '';
    this.#interval = interval;
    this.#maxInInterval = maxInInterval;
    this.#minDifference = minDifference;
  }

  async make(id: Id): Promise<Attempt> {
    const decision = await this.#under(id, (policy, key) => this.#client.check(policy, key));
    const info = this.#infoOf(decision);
    // The counter is that of the tightest limit, which is the count once the count blocks.
    const actionsLeft = info.blockedDueToCount ? (decision.counter ?? 0) : info.actionsRemaining;
    return { ...info, actionsLeft };
  }

  /** What `make` would answer. */
  async foresee(id: Id): Promise<RateLimitInfo> {
    // The answer counts the action itself. So the wait is that of two actions: this one and the one after it.
    const decision = await this.#under(id, (policy, key) => this.#client.peek(policy, key, { cost: 2 }));
    const count = countOf(decision);
    if (count === undefined || isHeldBack(decision)) return this.#infoOf(decision);
    const left = count.remaining ?? Infinity;
    const blockedDueToCount = left < 1;
    const blockedDueToMinDifference = decision.limits.some(
      ({ name, remaining }) => name === MIN_DIFFERENCE && remaining === 0,
    );
    return {
      blocked: blockedDueToCount || blockedDueToMinDifference,
      blockedDueToCount,
      blockedDueToMinDifference,
      millisecondsUntilAllowed: Math.max(this.#minDifference, count.retryAfterMs ?? this.#interval),
      actionsRemaining: Math.max(0, left - 1),
    };
  }

  async clear(id: Id): Promise<void> {
    await this.#under(id, (policy, key) => this.#client.reset(policy, key));
  }

  #under<T>(id: Id, call: (policy: string, key: string) => Promise<T>): Promise<T> {
    const key = boundedKey(`${this.#namespace}${id}`);
    return this.#policies.under(this.#policy, this.#numbers, (policy) => call(policy, key));
  }

  #infoOf(decision: Decision): RateLimitInfo {
    const blocked = !decision.allowed;
    const blockedDueToMinDifference = decision.refusedBy.includes(MIN_DIFFERENCE);
    const count = countOf(decision);
    return {
      blocked,
      blockedDueToCount: blocked && !(blockedDueToMinDifference && decision.refusedBy.length === 1),
      blockedDueToMinDifference,
      millisecondsUntilAllowed: Math.max(this.#minDifference, waitOf(decision, count)),
      actionsRemaining: count?.remaining ?? (blocked ? 0 : this.#maxInInterval - 1),
    };
  }
}

/** Two windows, because an action that comes too soon counts as well. */
function numbersOf(interval: number, maxInInterval: number, minDifference: number): NumbersPolicy {
  const count = rollingWindow(COUNT, maxInInterval, interval);
  const apart = minDifference > 0 ? [rollingWindow(MIN_DIFFERENCE, 1, minDifference)] : [];
  const text = minDifference > 0 ? `${maxInInterval}:${interval}:${minDifference}` : `${maxInInterval}:${interval}`;
  return {
    name: policyName('rolling-rate-limiter', text),
    definition: { mode: 'count-refusals', limits: [count, ...apart] },
    rates: [{ units: maxInInterval, perMs: interval }],
  };
}

/** The limit of the count: of a policy with several, the tightest. */
function countOf(decision: Decision): LimitState | undefined {
  const counts = decision.limits.filter((limit) => limit.name !== MIN_DIFFERENCE && limit.remaining !== null);
  return counts.sort((a, b) => (a.remaining ?? 0) - (b.remaining ?? 0))[0];
}

function waitOf(decision: Decision, count: LimitState | undefined): number {
  if (count === undefined || isHeldBack(decision)) return decision.retryAfterMs ?? Infinity;
  return count.remaining === 0 ? (count.nextUnitMs ?? 0) : 0;
}

/** Whether no limit refused: an administrator blocked the key, or other callers wait in line for it. */
function isHeldBack(decision: Decision): boolean {
  return !decision.allowed && decision.refusedBy.length === 0;
}
