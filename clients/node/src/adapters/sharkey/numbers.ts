import { duration, policyName, type NumbersPolicy } from '../policy/numbers.js';
import type { JsonObject } from '../../decision.js';
import type { Rate } from '../policy/rate.js';
import {
  hasMaxLimit,
  hasMinLimit,
  isLegacyRateLimit,
  type BucketRateLimit,
  type Keyed,
  type RateLimit,
} from './limit.js';

/** The policy of a limit; `null`: the limit limits nothing. */
export function numbersOf(limit: Keyed<RateLimit>): NumbersPolicy | null {
  if (!isLegacyRateLimit(limit)) return bucketNumbers(limit);
  if (hasMaxLimit(limit)) {
    if (limit.duration === 0) return null;
    positive(limit, 'duration', limit.duration, Number.MIN_VALUE);
    positive(limit, 'max', limit.max, 1);
    const max = Math.ceil(limit.max);
    const perMs = Math.ceil(limit.duration);
    const minInterval = hasMinLimit(limit) && limit.minInterval > 0 ? limit.minInterval : undefined;
    const named = minInterval === undefined ? `max:${max}:${perMs}` : `max:${max}:${perMs}:min:${minInterval}`;
    const legacy = { algorithm: 'legacy', max, duration: perMs };
    const fields = minInterval === undefined ? legacy : { ...legacy, minInterval: duration(minInterval) };
    return policyOf(named, fields, { units: max, perMs });
  }
  if (!hasMinLimit(limit) || limit.minInterval === 0) return null;
  const { minInterval } = limit;
  positive(limit, 'minInterval', minInterval, Number.MIN_VALUE);
  const fields = { algorithm: 'legacy', minInterval: duration(minInterval) };
  return policyOf(`min:${minInterval}`, fields, { units: 1, perMs: minInterval });
}

function bucketNumbers(limit: Keyed<BucketRateLimit>): NumbersPolicy {
  const { size, dripRate = 1000, dripSize = 1 } = limit;
  positive(limit, 'size', size, 1);
  positive(limit, 'dripRate', dripRate, 1);
  positive(limit, 'dripSize', dripSize, 1);
  const perMs = Math.ceil(Math.ceil(size) / Math.ceil(dripSize)) * Math.ceil(dripRate);
  const fields = { type: 'bucket', size, dripRate, dripSize };
  return policyOf(`bucket:${size}:${dripRate}:${dripSize}`, fields, { units: Math.ceil(size), perMs });
}

function policyOf(numbers: string, limit: JsonObject, rate: Rate): NumbersPolicy {
  return {
    name: policyName('sharkey', numbers),
    definition: { headers: 'legacy', limits: [limit] },
    rates: [rate],
  };
}

function positive(limit: Keyed<RateLimit>, field: string, value: number, least: number): void {
  if (value >= least) return;
  const bound = least === 1 ? 'at least 1' : 'positive';
  throw new Error(`\`${field}\` of limit \`${limit.key}\` is ${value}; it must be ${bound}`);
}
