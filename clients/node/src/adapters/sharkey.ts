/** Sharkey's `SkRateLimiterService`, with a Waterclock server in place of Redis. */

import type { Client } from '../client.js';
import type { Decision } from '../decision.js';
import { actorKey } from './key.js';
import { chosenPolicy, type PolicyChoice } from './policy/choice.js';
import { Policies, type AdapterOptions } from './policy/policies.js';
import { FactorCache, type FactorOf, type SharkeyUser } from './sharkey/factor.js';
import { disabledLimitInfo, type LimitInfo } from './sharkey/info.js';
import type { Keyed, RateLimit } from './sharkey/limit.js';
import { numbersOf } from './sharkey/numbers.js';

export { disabledLimitInfo, sendRateLimitHeaders, type HeaderReply, type LimitInfo } from './sharkey/info.js';
export {
  hasMaxLimit,
  hasMinLimit,
  isLegacyRateLimit,
  type BucketRateLimit,
  type Keyed,
  type LegacyRateLimit,
  type RateLimit,
} from './sharkey/limit.js';
export type { FactorOf, SharkeyUser } from './sharkey/factor.js';

export interface SharkeyOptions extends AdapterOptions {
  /** Policies of the server, by the limit's `key` or one for all; limits that have none are registered. */
  readonly policy?: PolicyChoice | undefined;
  /** The factor of a user, or of `null` for an actor that is only an address. Asked once a minute for each user. */
  readonly factorOf?: FactorOf | undefined;
  /** Whether nothing is limited: by default if `NODE_ENV` is `test`. */
  readonly disabled?: boolean | undefined;
}

export class SkRateLimiterService {
  readonly #client: Client;
  readonly #policies: Policies;
  readonly #policy: PolicyChoice | undefined;
  readonly #factors: FactorCache;
  readonly #disabled: boolean;

  constructor(options: SharkeyOptions) {
    this.#client = options.client;
    this.#policies = new Policies(options.client, options.warn);
    this.#policy = options.policy;
    this.#factors = new FactorCache(options.factorOf ?? (() => 1));
    this.#disabled = options.disabled ?? process.env['NODE_ENV'] === 'test';
  }

  /**
   * Charges one call. Being over the limit is a result, `blocked`; it rejects only if the limit is invalid or the
   * server cannot be asked. Bound, so it can be passed on. A `factor` goes before the one of `factorOf`.
   */
  readonly limit = async (
    limit: Keyed<RateLimit>,
    actorOrUser: string | SharkeyUser,
    factor?: number,
  ): Promise<LimitInfo> => {
    if (this.#disabled) return disabledLimitInfo;
    const user = typeof actorOrUser === 'string' ? null : actorOrUser;
    const scale = factor ?? (await this.#factors.get(user));
    if (scale === 0) return disabledLimitInfo;
    if (!(scale > 0)) throw new Error(`the factor of limit \`${limit.key}\` is ${scale}; it must not be negative`);
    const numbers = numbersOf(limit);
    if (numbers === null) return disabledLimitInfo;

    const key = actorKey(user?.id ?? (actorOrUser as string), limit.key);
    const decision = await this.#policies.under(chosenPolicy(this.#policy, limit.key), numbers, (policy) =>
      this.#client.check(policy, key, { factor: scale }),
    );
    return infoOf(decision);
  };
}

/** The server's own `limit_info`; policies with another header style have none. */
function infoOf(decision: Decision): LimitInfo {
  if (decision.source === 'unavailable' && decision.allowed) return disabledLimitInfo;
  const info = decision.limitInfo;
  const resetMs = info === undefined ? timeToNextCall(decision) : info.resetMs;
  const fullResetMs = info === undefined ? decision.resetAfterMs : info.fullResetMs;
  return {
    blocked: !decision.allowed,
    remaining: info?.remaining ?? decision.remaining ?? (decision.allowed ? Number.MAX_SAFE_INTEGER : 0),
    resetSec: resetMs === null ? Infinity : Math.ceil(resetMs / 1000),
    resetMs: resetMs ?? Infinity,
    fullResetSec: Math.ceil(fullResetMs / 1000),
    fullResetMs,
  };
}

function timeToNextCall(decision: Decision): number | null {
  if (!decision.allowed) return decision.retryAfterMs;
  return decision.remaining === 0 ? decision.nextUnitMs : 0;
}
