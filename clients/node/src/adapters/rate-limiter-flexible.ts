/** A limiter for `rate-limiter-flexible`, in which a Waterclock server counts. */

import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '../client.js';
import type { AnyConstructor, FlexiblePackage, InsuranceLimiter, Res } from './flexible/package.js';
import { Points, type State } from './flexible/points.js';
import type { Warn } from './policy/policies.js';

export type { FlexiblePackage, InsuranceLimiter, Res } from './flexible/package.js';

export interface RateLimiterWaterclockOptions {
  /** Without `policy`, and for `set`, `block`, `delete` and `blockDuration`, its token needs the role `admin`. */
  readonly client: Client;
  /** Points in `duration`; at least 1. */
  readonly points: number;
  /** Seconds; 0: points never come back by themselves. */
  readonly duration: number;
  /** A policy of the server, which then decides in place of `points` and `duration`. */
  readonly policy?: string | undefined;
  /** Seconds for which a key is blocked that consumed too much (0: until its window ends). */
  readonly blockDuration?: number | undefined;
  /** Delays allowed actions, to spread them over the duration (false). */
  readonly execEvenly?: boolean | undefined;
  readonly execEvenlyMinDelayMs?: number | undefined;
  /** What keys begin with ("rlflx"). */
  readonly keyPrefix?: string | undefined;
  /** Answers when the server cannot be asked. */
  readonly insuranceLimiter?: InsuranceLimiter | undefined;
  /** Called when the policy differs from the numbers, and when a key cannot be blocked (`console.warn`). */
  readonly warn?: Warn | undefined;
}

type Key = string | number;

interface CallOptions {
  /** Not supported: a policy has one duration. Any other than the limiter's own is an error. */
  readonly customDuration?: number | undefined;
}

/** The limiter's methods. `consume` rejects with a result if the points are used up, with an `Error` if it fails. */
export interface RateLimiterWaterclock<R extends Res = Res> extends InsuranceLimiter {
  readonly points: number;
  readonly duration: number;
  readonly keyPrefix: string;
  consume(key: Key, points?: number, options?: CallOptions): Promise<R>;
  penalty(key: Key, points?: number, options?: CallOptions): Promise<R>;
  reward(key: Key, points?: number, options?: CallOptions): Promise<R>;
  get(key: Key): Promise<R | null>;
  set(key: Key, points: number, secDuration?: number): Promise<R>;
  block(key: Key, secDuration: number): Promise<R>;
  delete(key: Key): Promise<boolean>;
  getKey(key: Key): string;
}

export type RateLimiterWaterclockClass<R extends Res = Res> = new (
  options: RateLimiterWaterclockOptions,
) => RateLimiterWaterclock<R>;

type Method = 'consume' | 'penalty' | 'reward' | 'get' | 'set' | 'block' | 'delete';

/**
 * Makes the limiter's class from the caller's own `rate-limiter-flexible`: it extends that package's
 * `RateLimiterCompatibleAbstract`, and results are its `RateLimiterRes`.
 */
export function rateLimiterWaterclock<R extends Res>(flexible: FlexiblePackage<R>): RateLimiterWaterclockClass<R> {
  const Base = flexible.RateLimiterCompatibleAbstract as AnyConstructor;
  const { RateLimiterRes } = flexible;

  return class WaterclockLimiter extends Base implements RateLimiterWaterclock<R> {
    readonly points: number;
    readonly duration: number;
    readonly #store: Points;
    readonly #keyPrefix: string;
    readonly #minDelayMs: number;
    readonly #insurance: InsuranceLimiter | undefined;
    readonly #warn: Warn;
    #blockDuration: number;
    #execEvenly: boolean;

    constructor(options: RateLimiterWaterclockOptions) {
      super();
      const { points, duration } = options;
      if (!(Number.isSafeInteger(points) && points >= 1)) {
        throw new RangeError(`\`points\` is ${points}; it must be an integer of at least 1`);
      }
      if (!(Number.isFinite(duration) && duration >= 0)) {
        throw new RangeError(`\`duration\` is ${duration}; it must be a number of seconds, or 0`);
      }
      this.points = points;
      this.duration = duration;
      this.#store = new Points(options);
      this.#keyPrefix = options.keyPrefix ?? 'rlflx';
      this.#minDelayMs = options.execEvenlyMinDelayMs ?? Math.ceil((duration * 1000) / points);
      this.#blockDuration = options.blockDuration ?? 0;
      this.#execEvenly = options.execEvenly ?? false;
      this.#insurance = options.insuranceLimiter;
      this.#warn = options.warn ?? console.warn;
      if (this.#insurance !== undefined) {
        this.#insurance.blockDuration = this.#blockDuration;
        this.#insurance.execEvenly = this.#execEvenly;
      }
    }

    get keyPrefix(): string {
      return this.#keyPrefix;
    }

    get blockDuration(): number {
      return this.#blockDuration;
    }

    set blockDuration(seconds: number) {
      this.#blockDuration = seconds;
    }

    get execEvenly(): boolean {
      return this.#execEvenly;
    }

    set execEvenly(isOn: boolean) {
      this.#execEvenly = isOn;
    }

    getKey(key: Key): string {
      return this.#keyPrefix === '' ? String(key) : `${this.#keyPrefix}:${key}`;
    }

    async consume(key: Key, points = 1, options: CallOptions = {}): Promise<R> {
      this.#rejectOtherDuration(options);
      return this.#insured('consume', [key, points], () => this.#consume(this.getKey(key), points));
    }

    async penalty(key: Key, points = 1, options: CallOptions = {}): Promise<R> {
      this.#rejectOtherDuration(options);
      return this.#insured('penalty', [key, points], async () => {
        const state = await this.#store.charge(this.getKey(key), points);
        return res(state, state.consumed === points);
      });
    }

    async reward(key: Key, points = 1, options: CallOptions = {}): Promise<R> {
      this.#rejectOtherDuration(options);
      return this.#insured('reward', [key, points], async () =>
        res(await this.#store.refund(this.getKey(key), points)),
      );
    }

    get(key: Key): Promise<R | null> {
      return this.#insured('get', [key], async () => {
        const state = await this.#store.peek(this.getKey(key));
        return state && res(state);
      });
    }

    set(key: Key, points: number, secDuration?: number): Promise<R> {
      return this.#insured('set', [key, points, secDuration ?? this.duration], async () => {
        const isOwn = secDuration === undefined || secDuration < 0 || secDuration === this.duration;
        await this.#store.replace(this.getKey(key), points, isOwn ? undefined : secDuration);
        return new RateLimiterRes(0, msOrNever(isOwn ? this.duration : secDuration), points);
      });
    }

    block(key: Key, secDuration: number): Promise<R> {
      return this.#insured('block', [key, secDuration], async () => {
        await this.#store.block(this.getKey(key), secDuration);
        return new RateLimiterRes(0, msOrNever(secDuration), this.points + 1);
      });
    }

    delete(key: Key): Promise<boolean> {
      return this.#insured('delete', [key], () => this.#store.clear(this.getKey(key)));
    }

    #rejectOtherDuration({ customDuration = this.duration }: CallOptions): void {
      if (customDuration === this.duration) return;
      throw new RangeError(`\`customDuration\` is ${customDuration}; make a limiter of this duration instead`);
    }

    async #consume(key: string, points: number): Promise<R> {
      const state = await this.#store.consume(key, points);
      const isFirst = state.consumed === points;
      if (!state.refused) return this.#evenly(res(state, isFirst));
      if (this.#blockDuration === 0 || !state.exceeded) throw res(state, isFirst);
      try {
        await this.#store.block(key, this.#blockDuration);
      } catch (error) {
        // A refusal stays a refusal; the window's end is its time then.
        this.#warn(
          `cannot block a key for ${this.#blockDuration} s: ${error instanceof Error ? error.message : error}`,
        );
        throw res(state, isFirst);
      }
      throw res({ ...state, msBeforeNext: this.#blockDuration * 1000 }, true);
    }

    /** Resolves later, so that the points that are left spread over the time that is left. */
    async #evenly(result: R): Promise<R> {
      if (!this.#execEvenly || result.msBeforeNext <= 0 || result.isFirstInDuration) return result;
      const spread = Math.ceil(result.msBeforeNext / (result.remainingPoints + 2));
      const delayMs = spread < this.#minDelayMs ? result.consumedPoints * this.#minDelayMs : spread;
      result.msBeforeNext = Math.max(result.msBeforeNext - delayMs, 0);
      return delay(delayMs, result);
    }

    /** A refusal is an answer; anything else that fails is the insurance's turn. */
    async #insured<T>(method: Method, parameters: readonly unknown[], ask: () => Promise<T>): Promise<T> {
      try {
        return await ask();
      } catch (error) {
        if (error instanceof RateLimiterRes || this.#insurance === undefined) throw error;
        const answer = this.#insurance[method] as (...parameters: readonly unknown[]) => Promise<T>;
        return answer.apply(this.#insurance, [...parameters]);
      }
    }
  };

  function res(state: State, isFirst = false): R {
    return new RateLimiterRes(state.remaining, state.msBeforeNext, state.consumed, isFirst);
  }
}

function msOrNever(seconds: number): number {
  return seconds === 0 ? -1 : seconds * 1000;
}
