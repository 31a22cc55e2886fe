/** Misskey's `RateLimiterService`, with a Waterclock server in place of Redis. */

import type { Client } from '../client.js';
import type { Decision } from '../decision.js';
import { actorKey } from './key.js';
import { chosenPolicy, type PolicyChoice } from './policy/choice.js';
import { policyName, rollingWindow, type NumbersPolicy } from './policy/numbers.js';
import { Policies, type AdapterOptions } from './policy/policies.js';

/** The limit of an endpoint. Times are milliseconds. */
export interface Limitation {
  readonly key: string;
  readonly duration?: number | undefined;
  readonly max?: number | undefined;
  readonly minInterval?: number | undefined;
}

export interface LimiterInfo {
  /** Calls that the limit admits in its window. */
  readonly total: number;
  /** Calls that were left before this one. */
  readonly remaining: number;
  /** When a call leaves the window: seconds since 1970. */
  readonly reset: number;
  /** The same in milliseconds. */
  readonly resetMs: number;
}

export interface Refusal {
  readonly code: 'BRIEF_REQUEST_INTERVAL' | 'RATE_LIMIT_EXCEEDED';
  readonly info: LimiterInfo;
}

export interface MisskeyOptions extends AdapterOptions {
  /**
   * Policies of the server, by the limitation's `key` or one for all. A refusal by a limit that is called `min` is
   * `BRIEF_REQUEST_INTERVAL`.
   */
  readonly policy?: PolicyChoice | undefined;
  /**
   * What a refusal does: `return` it (Misskey since May 2025), `reject` with it (before that), or reject with its code
   * alone, `reject-code` (before June 2024).
   */
  readonly refusal?: 'return' | 'reject' | 'reject-code' | undefined;
  /** Whether nothing is limited: by default unless `NODE_ENV` is `production`. */
  readonly disabled?: boolean | undefined;
}

const MIN = 'min';
const MAX = 'max';

export class RateLimiterService {
  readonly #client: Client;
  readonly #policies: Policies;
  readonly #policy: PolicyChoice | undefined;
  readonly #refusal: 'return' | 'reject' | 'reject-code';
  readonly #disabled: boolean;

  constructor(options: MisskeyOptions) {
    this.#client = options.client;
    this.#policies = new Policies(options.client, options.warn);
    this.#policy = options.policy;
    this.#refusal = options.refusal ?? 'return';
    this.#disabled = options.disabled ?? process.env['NODE_ENV'] !== 'production';
  }

  /** Charges one call; `null`: it passes. Refused calls count, too. Bound, so it can be passed on. */
  readonly limit = async (limitation: Limitation, actor: string, factor = 1): Promise<Refusal | null> => {
    if (this.#disabled || factor <= 0) return null;
    if (this.#refusal === 'return') return this.#charge(limitation, actor, factor);
    const rejection = await this.#charge(limitation, actor, factor).catch((info: unknown) => ({ code: 'ERR', info }));
    if (rejection === null) return null;
    throw this.#refusal === 'reject' ? rejection : rejection.code;
  };

  async #charge(limitation: Limitation, actor: string, factor: number): Promise<Refusal | null> {
    const key = actorKey(actor, limitation.key);
    const chosen = chosenPolicy(this.#policy, limitation.key);
    const max = maxNumbers(limitation);
    if (chosen !== undefined) {
      const numbers = max ?? minNumbers(limitation, 1);
      if (numbers === null) return null;
      const decision = await this.#check(chosen, numbers, key, factor);
      const isBrief = max === null || decision.refusedBy.includes(MIN);
      return refusal(isBrief ? 'BRIEF_REQUEST_INTERVAL' : 'RATE_LIMIT_EXCEEDED', decision);
    }
    // One after the other: a call that comes too soon is not counted in the long window.
    const min = minNumbers(limitation, factor);
    const brief = min && refusal('BRIEF_REQUEST_INTERVAL', await this.#check(undefined, min, key, 1));
    return brief ?? (max && refusal('RATE_LIMIT_EXCEEDED', await this.#check(undefined, max, key, factor)));
  }

  #check(chosen: string | undefined, numbers: NumbersPolicy, key: string, factor: number): Promise<Decision> {
    return this.#policies.under(chosen, numbers, (policy) => this.#client.check(policy, key, { factor }));
  }
}

/** The factor is in the number, because a window keeps its length whatever the factor. */
function minNumbers({ minInterval }: Limitation, factor: number): NumbersPolicy | null {
  if (minInterval == null || minInterval <= 0) return null;
  const perMs = minInterval * factor;
  return windowPolicy(MIN, 1, perMs, `min:${perMs}`);
}

function maxNumbers({ max, duration }: Limitation): NumbersPolicy | null {
  if (max == null || duration == null || duration <= 0) return null;
  return windowPolicy(MAX, Math.ceil(max), duration, `max:${max}:${duration}`);
}

function windowPolicy(name: string, limit: number, perMs: number, numbers: string): NumbersPolicy {
  return {
    name: policyName('misskey', numbers),
    definition: { mode: 'count-refusals', limits: [rollingWindow(name, limit, perMs)] },
    rates: [{ units: limit, perMs }],
  };
}

const LAST_DATE_MS = 8_640_000_000_000_000;
const UNAVAILABLE_MS = 1_000;

function refusal(code: Refusal['code'], decision: Decision): Refusal | null {
  if (decision.allowed) return null;
  const resetMs = resetOf(decision);
  return { code, info: { total: decision.limit ?? 0, remaining: 0, reset: Math.ceil(resetMs / 1000), resetMs } };
}

/** When the call may be tried again, as milliseconds since 1970. */
function resetOf(decision: Decision): number {
  // The client's fail mode refused. The server may be back soon.
  if (decision.source === 'unavailable') return Date.now() + UNAVAILABLE_MS;
  // A key that is blocked for good may come back on the last day that a Date can have.
  return decision.retryAfterMs === null ? LAST_DATE_MS : Date.now() + decision.retryAfterMs;
}
