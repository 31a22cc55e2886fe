/** `rolling-rate-limiter`, with a Waterclock server in place of Redis. */

import type { Client } from '../client.js';
import type { Decision, LimitState } from '../decision.js';
import { boundedKey } from './key.js';
import { policyName, rollingWindow, type NumbersPolicy } from './policy/numbers.js';
import { Policies, type Warn } from './policy/policies.js';

export type Id = number | string;

export interface RateLimiterOptions {
  /** Without `policy`, its token needs the role `admin`. */
  readonly client: Client;
  /** What keys begin with (""). */
  readonly namespace?: string | undefined;
  /** Milliseconds. */
  readonly interval: number;
  readonly maxInInterval: number;
  /** Milliseconds between two actions (0). */
  readonly minDifference?: number | undefined;
  /** A policy of the server, which then decides in place of the numbers. */
  readonly policy?: string | undefined;
  /** Told when the policy differs from the numbers (`console.warn`). */
  readonly warn?: Warn | undefined;
}

export interface RateLimitInfo {
  readonly blocked: boolean;
  readonly blockedDueToCount: boolean;
  readonly blockedDueToMinDifference: boolean;
  /** Rounded up; at least `minDifference`, even if the action was allowed. Infinity: never. */
  readonly millisecondsUntilAllowed: number;
  readonly actionsRemaining: number;
}

const COUNT = 'count';
const MIN_DIFFERENCE = 'min-difference';

/** Limits actions in a rolling window. Blocked actions count, too. */
export class RateLimiter {
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

  /** Attempts an action; `true`: it is blocked. */
  async limit(id: Id): Promise<boolean> {
    return (await this.limitWithInfo(id)).blocked;
  }

  /** Whether an action would be blocked. */
  async wouldLimit(id: Id): Promise<boolean> {
    return (await this.wouldLimitWithInfo(id)).blocked;
  }

  /** Attempts an action. */
  async limitWithInfo(id: Id): Promise<RateLimitInfo> {
    return this.#infoOf(await this.#attempt(id));
  }

  /** What `limitWithInfo` would answer. */
  async wouldLimitWithInfo(id: Id): Promise<RateLimitInfo> {
    // The answer counts the action itself. So the wait is that of two actions: this one and the one after it.
    const decision = await this.#policies.under(this.#policy, this.#numbers, (policy) =>
      this.#client.peek(policy, this.#key(id), { cost: 2 }),
    );
    const count = limitBesides(decision, MIN_DIFFERENCE);
    if (count === undefined || isBlockedKey(decision)) return this.#infoOf(decision);
    const left = count.remaining ?? Infinity;
    const blockedDueToCount = left < 1;
    const blockedDueToMinDifference = decision.limits.some((limit) => limit.name === MIN_DIFFERENCE && limit.remaining === 0);
    return {
      blocked: blockedDueToCount || blockedDueToMinDifference,
      blockedDueToCount,
      blockedDueToMinDifference,
      millisecondsUntilAllowed: Math.max(this.#minDifference, count.retryAfterMs ?? this.#interval),
      actionsRemaining: Math.max(0, left - 1),
    };
  }

  /** Clears what an id has used. */
  async clear(id: Id): Promise<void> {
    await this.#policies.under(this.#policy, this.#numbers, (policy) => this.#client.reset(policy, this.#key(id)));
  }

  /** Attempts an action as version 0.1 answers it: 0 or the milliseconds to wait, and the actions that are left. */
  async attemptLegacy(id: Id): Promise<readonly [msLeft: number, actionsLeft: number]> {
    const decision = await this.#attempt(id);
    const info = this.#infoOf(decision);
    const actionsLeft = info.blockedDueToCount ? (decision.counter ?? 0) : info.actionsRemaining;
    return [info.blocked ? info.millisecondsUntilAllowed : 0, actionsLeft];
  }

  #attempt(id: Id): Promise<Decision> {
    return this.#policies.under(this.#policy, this.#numbers, (policy) => this.#client.check(policy, this.#key(id)));
  }

  #key(id: Id): string {
    return boundedKey(`${this.#namespace}${id}`);
  }

  #infoOf(decision: Decision): RateLimitInfo {
    const blocked = !decision.allowed;
    const blockedDueToMinDifference = decision.refusedBy.includes(MIN_DIFFERENCE);
    const count = limitBesides(decision, MIN_DIFFERENCE);
    const left = count?.remaining ?? (blocked ? 0 : this.#maxInInterval - 1);
    return {
      blocked,
      blockedDueToCount: blocked && !(blockedDueToMinDifference && decision.refusedBy.length === 1),
      blockedDueToMinDifference,
      millisecondsUntilAllowed: Math.max(this.#minDifference, this.#wait(decision, count)),
      actionsRemaining: left,
    };
  }

  #wait(decision: Decision, count: LimitState | undefined): number {
    if (count === undefined || isBlockedKey(decision)) return decision.retryAfterMs ?? Infinity;
    return count.remaining === 0 ? (count.nextUnitMs ?? 0) : 0;
  }
}

/** The callback form of version 0.1: `limiter(id?, callback)`. */
export type LegacyLimiter = (...parameters: LegacyParameters) => void;
export type LegacyParameters = [callback: LegacyCallback] | [id: Id | undefined, callback: LegacyCallback];
export type LegacyCallback = (error: Error | null, msLeft?: number, actionsLeft?: number) => void;

/** Makes a limiter as version 0.1 does. Its callback is required: the answer comes from the server. */
export function legacyRateLimiter(options: RateLimiterOptions): LegacyLimiter {
  const limiter = new RateLimiter(options);
  return (...parameters) => {
    const callback = parameters.at(-1);
    if (typeof callback !== 'function') throw new TypeError('the last argument of a limiter must be a callback');
    const id = parameters.length > 1 ? ((parameters[0] as Id | undefined) ?? '') : '';
    limiter.attemptLegacy(id).then(
      ([msLeft, actionsLeft]) => queueMicrotask(() => callback(null, msLeft, actionsLeft)),
      (error: Error) => queueMicrotask(() => callback(error)),
    );
  };
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

/** The tightest limit that has another name. */
function limitBesides(decision: Decision, name: string): LimitState | undefined {
  const others = decision.limits.filter((limit) => limit.name !== name && limit.remaining !== null);
  return others.sort((a, b) => (a.remaining ?? 0) - (b.remaining ?? 0))[0];
}

/** Whether an operator blocked the key, or other callers wait in line for it. */
function isBlockedKey(decision: Decision): boolean {
  return !decision.allowed && decision.refusedBy.length === 0;
}
