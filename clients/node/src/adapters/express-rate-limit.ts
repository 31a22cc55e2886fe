/** A store for `express-rate-limit`, in which a Waterclock server counts. */

import type { Client } from '../client.js';
import type { Decision } from '../decision.js';
import { boundedKey } from './key.js';
import { duration, policyName, type NumbersPolicy } from './policy/numbers.js';
import { Policies, type OneLimitOptions } from './policy/policies.js';

export interface WaterclockStoreOptions extends OneLimitOptions {
  /** What keys begin with ("rl:"). Limiters of the same numbers need different ones, or share their counts. */
  readonly prefix?: string | undefined;
}

/** What the store needs of the middleware's options. */
export interface LimiterOptions {
  readonly windowMs: number;
  /** A number, or a function of the request. */
  readonly limit: unknown;
}

export interface Hits {
  readonly totalHits: number;
  readonly resetTime: Date;
}

/** One store serves one limiter, as with every store. */
export class WaterclockStore {
  readonly localKeys = false;
  readonly prefix: string;
  readonly #client: Client;
  readonly #policies: Policies;
  readonly #policy: string | undefined;
  #windowMs = 60_000;
  #limit: number | undefined;

  constructor(options: WaterclockStoreOptions) {
    this.prefix = options.prefix ?? 'rl:';
    this.#client = options.client;
    this.#policies = new Policies(options.client, options.warn);
    this.#policy = options.policy;
  }

  /** The middleware calls it once. */
  init({ windowMs, limit }: LimiterOptions): void {
    this.#windowMs = windowMs;
    this.#limit = typeof limit === 'number' ? limit : undefined;
    if (this.#limit === undefined && this.#policy === undefined) {
      throw new TypeError(
        '`limit` is a function, so WaterclockStore cannot register it; name a policy of the server by `policy`',
      );
    }
  }

  async increment(key: string): Promise<Hits> {
    if (this.#limit === 0) return this.#hits(1, null);
    const decision = await this.#under(key, (policy, bounded) => this.#client.check(policy, bounded));
    return this.#hits(this.#verdict(decision), timeOf(decision));
  }

  async decrement(key: string): Promise<void> {
    if (this.#limit !== 0) await this.#under(key, (policy, bounded) => this.#client.refund(policy, bounded));
  }

  /** `undefined`: the key has used nothing. */
  async get(key: string): Promise<Hits | undefined> {
    if (this.#limit === 0) return undefined;
    const decision = await this.#under(key, (policy, bounded) => this.#client.peek(policy, bounded));
    if (decision.allowed && decision.resetAfterMs === 0) return undefined;
    // A refused peek is a key that has used everything, not one more hit.
    return this.#hits(decision.allowed ? this.#verdict(decision) : counted(decision), timeOf(decision));
  }

  async resetKey(key: string): Promise<void> {
    if (this.#limit !== 0) await this.#under(key, (policy, bounded) => this.#client.reset(policy, bounded));
  }

  #under<T>(key: string, call: (policy: string, boundedKey: string) => Promise<T>): Promise<T> {
    const bounded = boundedKey(`${this.prefix}${key}`);
    return this.#policies.under(this.#policy, numbersOf(this.#limit, this.#windowMs), (policy) =>
      call(policy, bounded),
    );
  }

  /** Hits that are above the middleware's own limit exactly if the server refused. */
  #verdict(decision: Decision): number {
    const limit = this.#limit ?? decision.limit;
    // Whatever a function gives as the limit, this is above it.
    if (limit === null) return decision.allowed ? 1 : Number.MAX_SAFE_INTEGER;
    if (!decision.allowed) return Math.max(limit + 1, counted(decision));
    const used = limit - (decision.remaining ?? limit);
    return Math.min(Math.max(used, 1), limit);
  }

  #hits(totalHits: number, afterMs: number | null): Hits {
    return { totalHits, resetTime: new Date(Date.now() + (afterMs ?? this.#windowMs)) };
  }
}

/** Hits so far; refused ones are among them if the policy counts them. */
function counted(decision: Decision): number {
  return (decision.limit ?? 0) - (decision.counter ?? 0);
}

/** When the key is fresh, or when it may retry; `null`: never, or not known. */
function timeOf(decision: Decision): number | null {
  if (decision.source === 'unavailable') return null;
  return decision.allowed ? decision.resetAfterMs : decision.retryAfterMs;
}

/** A limit that is a function has no numbers to register or compare. */
function numbersOf(limit: number | undefined, windowMs: number): NumbersPolicy {
  const windows =
    limit === undefined ? [] : [{ name: 'window', algorithm: 'fixed-window', limit, per: duration(windowMs) }];
  return {
    name: policyName('express-rate-limit', `${limit}:${windowMs}`),
    definition: { mode: 'count-refusals', limits: windows },
    rates: limit === undefined ? [] : [{ units: limit, perMs: windowMs }],
  };
}
