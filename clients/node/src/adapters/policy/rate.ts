import { isObject, type Json, type JsonObject } from '../../decision.js';

/** What a limit admits, whatever its algorithm: so many units, and all of them again after `perMs`. */
export interface Rate {
  readonly units: number;
  readonly perMs: number;
}

/** The rates of a policy's limits, as `GET /v1/policies/{policy}` gives them; limits without a rate are left out. */
export function ratesOf(policy: JsonObject): readonly Rate[] {
  const limits = policy['limits'];
  return Array.isArray(limits) ? limits.flatMap((limit: Json) => (isObject(limit) ? rateOf(limit) : [])) : [];
}

export function describeRates(rates: readonly Rate[]): string {
  return rates.map(({ units, perMs }) => `${units} in ${perMs} ms`).join(' and ') || 'no rate';
}

/** Whether each rate of `wanted` is one of `actual`. Rounding to drips and microseconds makes no difference. */
export function includesRates(actual: readonly Rate[], wanted: readonly Rate[]): boolean {
  return wanted.every((rate) => actual.some((other) => isSameRate(rate, other)));
}

function isSameRate(a: Rate, b: Rate): boolean {
  return a.units === b.units && Math.abs(a.perMs - b.perMs) <= a.perMs / 100;
}

function rateOf(limit: JsonObject): Rate[] {
  const number = (name: string): number => Number(limit[name]);
  switch (limit['algorithm']) {
    case 'gcra':
    case 'token-bucket': {
      const units = number('capacity');
      return [{ units, perMs: (units * number('per_us')) / number('limit') / 1000 }];
    }
    case 'leaky-bucket': {
      const units = number('capacity');
      return [{ units, perMs: (Math.ceil(units / number('drip')) * number('every_us')) / 1000 }];
    }
    case 'min-interval':
      return [{ units: 1, perMs: number('every_us') / 1000 }];
    case 'fixed-window':
    case 'sliding-window':
    case 'rolling-window':
    case 'quota':
      return [{ units: number('limit'), perMs: number('per_us') / 1000 }];
    default:
      return [];
  }
}
