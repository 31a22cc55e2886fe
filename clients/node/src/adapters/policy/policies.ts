import type { Client } from '../../client.js';
import { WaterclockError } from '../../error.js';
import { BoundedMap } from '../bounded-map.js';
import type { NumbersPolicy } from './numbers.js';
import { describeRates, includesRates, ratesOf } from './rate.js';

export type Warn = (message: string) => void;

/** What adapters have in common. */
export interface AdapterOptions {
  /** Without `policy`, its token needs the role `admin`. */
  readonly client: Client;
  /** Called when a policy of the server differs from the numbers in the code (`console.warn`). */
  readonly warn?: Warn | undefined;
}

/** Of adapters that have one limit. */
export interface OneLimitOptions extends AdapterOptions {
  /** A policy of the server, which then decides in place of the numbers. */
  readonly policy?: string | undefined;
}

const MAX_REMEMBERED = 1_000;

/** Makes calls under policies that programs describe by numbers. */
export class Policies {
  readonly #client: Client;
  readonly #warn: Warn;
  readonly #registered = new BoundedMap<string, Promise<void>>(MAX_REMEMBERED);
  readonly #compared = new BoundedMap<string, true>(MAX_REMEMBERED);

  constructor(client: Client, warn: Warn = console.warn) {
    this.#client = client;
    this.#warn = warn;
  }

  /**
   * Makes a call under the policy that the operator chose, or else under one that is registered for the numbers. A
   * chosen policy that has other numbers is warned about once; its own numbers decide.
   */
  async under<T>(chosen: string | undefined, numbers: NumbersPolicy, call: (policy: string) => Promise<T>): Promise<T> {
    if (chosen !== undefined) {
      this.#compareOnce(chosen, numbers);
      return call(chosen);
    }
    await this.#registerOnce(numbers);
    try {
      return await call(numbers.name);
    } catch (error) {
      if (!isUnknownPolicy(error)) throw error;
    }
    // The server lost the policy: it restarted without a snapshot. Nothing was charged, so the call may be repeated.
    this.#registered.delete(numbers.name);
    await this.#registerOnce(numbers);
    return call(numbers.name);
  }

  #registerOnce(numbers: NumbersPolicy): Promise<void> {
    const known = this.#registered.get(numbers.name);
    if (known !== undefined) return known;
    const registration = this.#register(numbers).then(
      (isKept) => {
        if (!isKept) this.#registered.delete(numbers.name);
      },
      (error: unknown) => {
        this.#registered.delete(numbers.name);
        throw error;
      },
    );
    this.#registered.set(numbers.name, registration);
    return registration;
  }

  /** `false`: the server cannot be asked. The call that follows finds out, too, and applies the client's fail mode. */
  async #register({ name, definition, rates }: NumbersPolicy): Promise<boolean> {
    try {
      await this.#client.putPolicy(name, definition);
    } catch (error) {
      if (!isWaterclockError(error)) throw error;
      if (error.kind === 'unavailable') return false;
      if (error.kind === 'unauthorized') {
        throw new WaterclockError(
          'unauthorized',
          `cannot register the policy \`${name}\`: ${error.message}; use a token with the role admin, or name a policy of the server by the option \`policy\``,
          { httpStatus: error.httpStatus, code: error.code, cause: error },
        );
      }
      if (!isOfTheFile(error)) throw error;
      this.#compareOnce(name, { name, definition, rates });
    }
    return true;
  }

  /** Compares in the background: calls need not wait for it, and a token without the role `read` may make them. */
  #compareOnce(policy: string, numbers: NumbersPolicy): void {
    const comparison = `${policy} ${numbers.name}`;
    if (this.#compared.get(comparison)) return;
    this.#compared.set(comparison, true);
    this.#compare(policy, numbers).catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : String(error);
      this.#warn(`cannot compare policy \`${policy}\` with the numbers in the code: ${reason}`);
    });
  }

  async #compare(policy: string, { rates }: NumbersPolicy): Promise<void> {
    const actual = await this.#client.getPolicy(policy);
    if (actual === null || includesRates(ratesOf(actual), rates)) return;
    this.#warn(
      `policy \`${policy}\` admits ${describeRates(ratesOf(actual))}, the code says ${describeRates(rates)}; the policy decides`,
    );
  }
}

/** By name: a program may load the package both as ESM and as CommonJS, and have the class twice. */
function isWaterclockError(error: unknown): error is WaterclockError {
  return error instanceof Error && error.name === 'WaterclockError';
}

function isUnknownPolicy(error: unknown): boolean {
  return isWaterclockError(error) && error.kind === 'invalid' && error.message.includes('there is no policy');
}

/** The configuration file has a policy of the name, which wins. */
function isOfTheFile(error: WaterclockError): boolean {
  return error.httpStatus === 409 || error.message.includes('is in the configuration file');
}
