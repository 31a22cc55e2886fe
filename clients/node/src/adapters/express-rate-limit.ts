/** A store for `express-rate-limit`, in which a Waterclock server counts. */

import type { Client } from '../client.js';
import type { Decision } from '../decision.js';
import { boundedKey } from './key.js';
import { duration, policyName, type NumbersPolicy } from './policy/numbers.js';
import { Policies, type Warn } from './policy/policies.js';

export interface WaterclockStoreOptions {
  /** Without `policy`, its token needs the role `admin`. */
  readonly client: Client;
  /** A policy of the server, which then decides in place of `limit` and `windowMs`. */
  readonly policy?: string | undefined;
  /** What keys begin with ("rl:"). Limiters of the same numbers need different ones, or share their counts. */
  readonly prefix?: string | undefined;
  /** Told when the policy differs from the numbers (`console.warn`). */
  readonly warn?: Warn | undefined;
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
      throw new TypeError('`limit` is a function, so WaterclockStore cannot register it; name a policy of the server by `policy`');
    }
  }

  async increment(key: string): Promise<Hits> {
    if (this.#limit === 0) return this.#hits(1, this.#windowMs);
    return this.#hitsOf(await this.#under((policy) => this.#client.check(policy, this.#key(key))));
  }

  async decrement(key: string): Promise<void> {
    if (this.#limit !== 0) await this.#under((policy) => this.#client.refund(policy, this.#key(key)));
  }

  /** `undefined`: the key has used nothing. */
  async get(key: string): Promise<Hits | undefined> {
    if (this.#limit === 0) return undefined;
    const decision = await this.#under((policy) => this.#client.peek(policy, this.#key(key)));
    if (decision.allowed && decision.resetAfterMs === 0) return undefined;
    // A peek of an exhausted key is refused, but the hit that would be refused was not counted.
    const hits = decision.allowed || decision.counter === undefined ? this.#hitsOf(decision).totalHits : this.#counted(decision);
    return this.#hits(hits, timeOf(decision) ?? this.#windowMs);
  }

  async resetKey(key: string): Promise<void> {
    if (this.#limit !== 0) await this.#under((policy) => this.#client.reset(policy, this.#key(key)));
  }

  #under<T>(call: (policy: string) => Promise<T>): Promise<T> {
    return this.#policies.under(this.#policy, numbersOf(this.#limit, this.#windowMs), call);
  }

  #key(key: string): string {
    return boundedKey(`${this.prefix}${key}`);
  }

  /** The middleware compares hits with its own limit, so these are chosen to give the server's decision. */
  #hitsOf(decision: Decision): Hits {
    const limit = this.#limit ?? decision.limit ?? 1;
    const afterMs = timeOf(decision) ?? this.#windowMs;
    if (!decision.allowed) return this.#hits(Math.max(limit + 1, this.#counted(decision)), afterMs);
    const used = limit - (decision.remaining ?? limit);
    return this.#hits(Math.min(Math.max(used, 1), limit), afterMs);
  }

  /** Hits with refused ones, if the policy counts them. */
  #counted(decision: Decision): number {
    return (decision.limit ?? 0) - (decision.counter ?? 0);
  }

  #hits(totalHits: number, afterMs: number): Hits {
    return { totalHits, resetTime: new Date(Date.now() + afterMs) };
  }
}

/** When the key is fresh, or when it may retry; `null`: never, or nobody knows. */
function timeOf(decision: Decision): number | null {
  if (decision.source === 'unavailable') return null;
  return decision.allowed ? decision.resetAfterMs : decision.retryAfterMs;
}

/** A limit that is a function has no numbers to register or compare. */
function numbersOf(limit: number | undefined, windowMs: number): NumbersPolicy {
  const windows = limit === undefined ? [] : [{ name: 'window', algorithm: 'fixed-window', limit, per: duration(windowMs) }];
  return {
    name: policyName('express-rate-limit', `${limit}:${windowMs}`),
    definition: { mode: 'count-refusals', limits: windows },
    rates: limit === undefined ? [] : [{ units: limit, perMs: windowMs }],
  };
}
