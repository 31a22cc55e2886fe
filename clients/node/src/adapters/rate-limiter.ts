/** RisingStack's `rate-limiter`, with a Waterclock server in place of Redis. */

import type { Decision } from '../decision.js';
import { boundedKey } from './key.js';
import { policyName, rollingWindow, type NumbersPolicy } from './policy/numbers.js';
import { Policies, type OneLimitOptions } from './policy/policies.js';

export type Mode = 'binary' | 'nary' | 'uniform';

/** At most `maxInInterval` actions in any `interval` milliseconds. */
export interface Limit {
  readonly interval: number;
  readonly maxInInterval: number;
  /** Milliseconds between two actions (0). It only lengthens `wait`; nothing is refused for it. */
  readonly minDifference?: number | undefined;
  /** Parts of the interval in which actions are counted together; without it, each action has its own time. */
  readonly buckets?: number | undefined;
}

interface CommonOptions extends OneLimitOptions {
  /** What happens to actions beyond the limit ("binary"). */
  readonly mode?: Mode | undefined;
  readonly namespace?: string | undefined;
}

export type SingleLimitOptions = CommonOptions & Limit & { readonly limits?: undefined };
export type MultiLimitOptions = CommonOptions & { readonly limits: readonly Limit[] | Readonly<Record<string, Limit>> };
export type RateLimiterOptions = SingleLimitOptions | MultiLimitOptions;

export interface Result {
  /** How many actions were recorded; in `uniform` mode all of them, refused or not. */
  readonly acknowledged: number;
  /** The same. */
  readonly actionsRecorded: number;
  /** How many are left; negative in `uniform` mode if more were tried than the limit admits. */
  readonly actionsRemaining: number;
  /** Milliseconds until the same number of actions can be recorded; Infinity: never. */
  readonly wait: number;
}

export type ResultCallback = (error: Error | null, result?: Result) => void;

/** Records actions. Without a callback, it gives a promise. */
export interface Limiter {
  (callback: ResultCallback): void;
  (idOrCount: string | number, callback: ResultCallback): void;
  (id: string, count: number, callback: ResultCallback): void;
  (id?: string, count?: number): Promise<Result>;
}

/** Makes a limiter: gives it back, and passes it to the callback if there is one. */
export function rateLimiter(
  options: RateLimiterOptions,
  callback?: (error: Error | null, limiter?: Limiter) => void,
): Limiter {
  const limits = limitsOf(options);
  const mode = options.mode ?? 'binary';
  const numbers = numbersOf(limits, mode);
  const policies = new Policies(options.client, options.warn);

  const record = async (id: string, count: number): Promise<Result> => {
    const key = boundedKey([options.namespace ?? '', id].filter((part) => part !== '').join(':'));
    const decision = await policies.under(options.policy, numbers, (policy) =>
      options.client.check(policy, key, { cost: count }),
    );
    return resultOf(decision, limits);
  };

  const limiter = (...parameters: readonly unknown[]): void | Promise<Result> => {
    const { id, count, callback } = readCall(parameters);
    const result = record(id, count);
    if (callback === undefined) return result;
    result.then(
      (value) => queueMicrotask(() => callback(null, value)),
      (error: Error) => queueMicrotask(() => callback(error)),
    );
  };
  if (callback !== undefined) queueMicrotask(() => callback(null, limiter as Limiter));
  return limiter as Limiter;
}

export default rateLimiter;

interface Call {
  readonly id: string;
  readonly count: number;
  readonly callback: ResultCallback | undefined;
}

/** Reads `(id?, count?, callback?)`: a leading number is the count. */
function readCall(parameters: readonly unknown[]): Call {
  const rest = parameters.filter((parameter) => parameter !== undefined);
  const id = typeof rest[0] === 'string' ? (rest.shift() as string) : '';
  const count = typeof rest[0] === 'number' ? (rest.shift() as number) : 1;
  const callback = typeof rest[0] === 'function' ? (rest.shift() as ResultCallback) : undefined;
  if (rest.length > 0) {
    throw new TypeError(
      'a limiter takes an id (text), a number of actions and a callback, each optional, in this order',
    );
  }
  if (!(Number.isSafeInteger(count) && count > 0)) {
    throw new RangeError(`the number of actions is ${count}; it must be a positive integer`);
  }
  return { id, count, callback };
}

function limitsOf(options: RateLimiterOptions): readonly Limit[] {
  const limits = options.limits === undefined ? [options] : Object.values(options.limits);
  if (limits.length === 0) throw new RangeError('`limits` is empty; give at least one limit');
  for (const limit of limits) {
    atLeast(limit, 'interval', Number.MIN_VALUE);
    atLeast(limit, 'maxInInterval', 1);
    if (limit.minDifference !== undefined) atLeast(limit, 'minDifference', 0);
    if (limit.buckets !== undefined) atLeast(limit, 'buckets', 1);
  }
  return limits;
}

function atLeast(limit: Limit, field: keyof Limit, least: number): void {
  const value = limit[field];
  if (value !== undefined && value >= least) return;
  const bound = least === Number.MIN_VALUE ? 'positive' : `at least ${least}`;
  throw new RangeError(`\`${field}\` is ${value}; it must be ${bound}`);
}

function numbersOf(limits: readonly Limit[], mode: Mode): NumbersPolicy {
  if (!['binary', 'nary', 'uniform'].includes(mode)) {
    throw new RangeError(`\`mode\` is ${mode}; it must be binary, nary or uniform`);
  }
  const texts = limits.map(({ maxInInterval, interval, buckets }) =>
    [maxInInterval, interval, buckets].filter((number) => number !== undefined).join(':'),
  );
  return {
    name: policyName('rate-limiter', `${mode}:${texts.join('_')}`),
    definition: {
      mode,
      limits: limits.map(({ maxInInterval, interval, buckets }, index) =>
        rollingWindow(String(index), maxInInterval, interval, buckets),
      ),
    },
    rates: limits.map(({ maxInInterval, interval }) => ({ units: maxInInterval, perMs: interval })),
  };
}

function resultOf(decision: Decision, limits: readonly Limit[]): Result {
  const recorded = typeof decision.granted === 'number' ? decision.granted : 0;
  const least = Math.min(...limits.map((limit) => limit.maxInInterval));
  const minDifference = Math.max(...limits.map((limit) => limit.minDifference ?? 0));
  return {
    acknowledged: recorded,
    actionsRecorded: recorded,
    actionsRemaining: decision.counter ?? decision.remaining ?? (decision.allowed ? least : 0),
    wait: Math.max(decision.nextSameMs ?? Infinity, minDifference),
  };
}
