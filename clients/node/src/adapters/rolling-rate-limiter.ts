/** `rolling-rate-limiter`, with a Waterclock server in place of Redis. */

import { Attempts, type Id, type RateLimiterOptions, type RateLimitInfo } from './rolling/attempts.js';

export type { Id, RateLimiterOptions, RateLimitInfo } from './rolling/attempts.js';

/** Limits actions in a rolling window. Blocked actions count, too. */
export class RateLimiter {
  readonly #attempts: Attempts;

  constructor(options: RateLimiterOptions) {
    this.#attempts = new Attempts(options);
  }

  /** Attempts an action; `true`: it is blocked. */
  async limit(id: Id): Promise<boolean> {
    return (await this.#attempts.make(id)).blocked;
  }

  /** Whether an action would be blocked. */
  async wouldLimit(id: Id): Promise<boolean> {
    return (await this.#attempts.foresee(id)).blocked;
  }

  /** Attempts an action. */
  async limitWithInfo(id: Id): Promise<RateLimitInfo> {
    const { actionsLeft: _, ...info } = await this.#attempts.make(id);
    return info;
  }

  /** What `limitWithInfo` would answer. */
  wouldLimitWithInfo(id: Id): Promise<RateLimitInfo> {
    return this.#attempts.foresee(id);
  }

  /** Clears what an id has used. */
  clear(id: Id): Promise<void> {
    return this.#attempts.clear(id);
  }
}

/** The callback form of version 0.1: `limiter(id?, callback)`. */
export type LegacyLimiter = (...parameters: LegacyParameters) => void;
export type LegacyParameters = [callback: LegacyCallback] | [id: Id | undefined, callback: LegacyCallback];
/** `msLeft` is 0 if the action was allowed; `actionsLeft` is negative if more were attempted than allowed. */
export type LegacyCallback = (error: Error | null, msLeft?: number, actionsLeft?: number) => void;

/** Makes a limiter as version 0.1 does. Its callback is required: the answer comes from the server. */
export function legacyRateLimiter(options: RateLimiterOptions): LegacyLimiter {
  const attempts = new Attempts(options);
  return (...parameters) => {
    const callback = parameters.at(-1);
    if (typeof callback !== 'function') throw new TypeError('the last argument of a limiter must be a callback');
    const id = parameters.length > 1 ? ((parameters[0] as Id | undefined) ?? '') : '';
    attempts.make(id).then(
      ({ blocked, millisecondsUntilAllowed, actionsLeft }) =>
        queueMicrotask(() => callback(null, blocked ? millisecondsUntilAllowed : 0, actionsLeft)),
      (error: Error) => queueMicrotask(() => callback(error)),
    );
  };
}
