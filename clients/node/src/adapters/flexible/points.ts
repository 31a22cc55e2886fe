import type { Client, Override } from '../../client.js';
import type { Decision } from '../../decision.js';
import { boundedKey } from '../key.js';
import { duration, policyName, type NumbersPolicy } from '../policy/numbers.js';
import { Policies, type Warn } from '../policy/policies.js';

/** A window that never ends, as far as the server can say it: 100 years. */
const FOREVER = '36500d';
const FIFTY_YEARS_MS = 18_250 * 24 * 3_600_000;
const NEVER_MS = -1;

/** The points of a key after a call. */
export interface State {
  readonly refused: boolean;
  /** Whether the key consumed too much. A key is also refused if it is blocked, or by the client's fail mode. */
  readonly exceeded: boolean;
  readonly consumed: number;
  readonly remaining: number;
  /** -1: never. */
  readonly msBeforeNext: number;
}

export interface PointsOptions {
  readonly client: Client;
  readonly points: number;
  /** Seconds; 0: forever. */
  readonly duration: number;
  readonly policy?: string | undefined;
  readonly warn?: Warn | undefined;
}

/** Counts points on the server, in windows that begin with the first point. */
export class Points {
  readonly #client: Client;
  readonly #policies: Policies;
  readonly #policy: string | undefined;
  readonly #numbers: NumbersPolicy;
  readonly #points: number;

  constructor({ client, points, duration: seconds, policy, warn }: PointsOptions) {
    this.#client = client;
    this.#policies = new Policies(client, warn);
    this.#policy = policy;
    this.#numbers = numbersOf(points, seconds);
    this.#points = points;
  }

  async consume(key: string, points: number): Promise<State> {
    const check = (policy: string, bounded: string) => this.#client.check(policy, bounded, { cost: points });
    return this.#state(key, await this.#under(key, check));
  }

  /** Charges points even if there are too few. */
  async charge(key: string, points: number): Promise<State> {
    const report = (policy: string, bounded: string) => this.#client.report(policy, bounded, { cost: points });
    return this.#state(key, await this.#under(key, report));
  }

  async refund(key: string, points: number): Promise<State> {
    const refund = (policy: string, bounded: string) => this.#client.refund(policy, bounded, { cost: points });
    return this.#state(key, await this.#under(key, refund));
  }

  /** `null`: the key has used nothing. */
  async peek(key: string): Promise<State | null> {
    const decision = await this.#under(key, (policy, bounded) => this.#client.peek(policy, bounded));
    if (decision.allowed && decision.resetAfterMs === 0) return null;
    return this.#state(key, decision);
  }

  /** Clears the key, and charges points in a window of its own length; 0 seconds: one that never ends. */
  async replace(key: string, points: number, seconds: number | undefined): Promise<void> {
    if (seconds === undefined) await this.#clearOverride(key);
    else await this.#setOverride(key, { limits: [fixedWindow(this.#points, seconds)] }, seconds);
    await this.#reset(key);
    if (points > 0) await this.charge(key, points);
  }

  /** Refuses the key for some seconds, after which it is fresh; 0: forever. */
  async block(key: string, seconds: number): Promise<void> {
    await this.#setOverride(key, { block: true }, seconds);
    await this.#reset(key);
  }

  /** `false`: there was nothing to clear. */
  async clear(key: string): Promise<boolean> {
    const wasUsed = (await this.peek(key)) !== null;
    await this.#clearOverride(key);
    await this.#reset(key);
    return wasUsed;
  }

  async #state(key: string, decision: Decision): Promise<State> {
    if (isBlocked(decision)) {
      const msBeforeNext = await this.#blockedFor(key);
      return { refused: true, exceeded: false, consumed: this.#points + 1, remaining: 0, msBeforeNext };
    }
    const consumed = this.#consumed(decision);
    return {
      refused: !decision.allowed,
      exceeded: decision.refusedBy.length > 0,
      consumed,
      remaining: Math.max(this.#points - consumed, 0),
      msBeforeNext: timeOf(decision),
    };
  }

  /** The server counts refused points, too, up to twice the limit. A policy that does not is used up if it refuses. */
  #consumed(decision: Decision): number {
    if (decision.counter !== undefined) return (decision.limit ?? this.#points) - decision.counter;
    const used = this.#points - (decision.remaining ?? this.#points);
    return decision.allowed ? Math.min(Math.max(used, 0), this.#points) : this.#points + 1;
  }

  /** How long an override blocks the key. Where the token may not read it, the block has no known end. */
  async #blockedFor(key: string): Promise<number> {
    const reading = this.#under(key, (policy, bounded) => this.#client.getOverride(policy, bounded));
    const left = (await reading.catch(() => null))?.['expires_in_us'];
    return typeof left === 'number' ? Math.ceil(left / 1000) : NEVER_MS;
  }

  #setOverride(key: string, override: Override, seconds: number): Promise<void> {
    const expiry = seconds > 0 ? { expires_in: duration(seconds * 1000) } : {};
    return this.#under(key, (policy, bounded) => this.#client.setOverride(policy, bounded, { ...override, ...expiry }));
  }

  #clearOverride(key: string): Promise<void> {
    return this.#under(key, (policy, bounded) => this.#client.clearOverride(policy, bounded));
  }

  #reset(key: string): Promise<Decision> {
    return this.#under(key, (policy, bounded) => this.#client.reset(policy, bounded));
  }

  #under<T>(key: string, call: (policy: string, boundedKey: string) => Promise<T>): Promise<T> {
    const bounded = boundedKey(key);
    return this.#policies.under(this.#policy, this.#numbers, (policy) => call(policy, bounded));
  }
}

function numbersOf(points: number, seconds: number): NumbersPolicy {
  return {
    name: policyName('rate-limiter-flexible', `${points}:${seconds}`),
    definition: { mode: 'count-refusals', limits: [fixedWindow(points, seconds)] },
    rates: seconds === 0 ? [] : [{ units: points, perMs: seconds * 1000 }],
  };
}

function fixedWindow(points: number, seconds: number): { name: string; algorithm: string; limit: number; per: string } {
  const per = seconds === 0 ? FOREVER : duration(seconds * 1000);
  return { name: 'points', algorithm: 'fixed-window', limit: points, per };
}

/** Whether an override blocks the key: no limit refused, and there is no time to wait for. */
function isBlocked(decision: Decision): boolean {
  if (decision.allowed || decision.source === 'unavailable') return false;
  return decision.refusedBy.length === 0 && decision.retryAfterMs === null;
}

function timeOf(decision: Decision): number {
  const ms = decision.allowed ? decision.resetAfterMs : (decision.retryAfterMs ?? decision.resetAfterMs);
  return ms > FIFTY_YEARS_MS ? NEVER_MS : ms;
}
