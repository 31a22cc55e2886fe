import { createHash } from 'node:crypto';
import type { PolicyDefinition } from '../../client.js';
import type { JsonObject } from '../../decision.js';
import type { Rate } from './rate.js';

/** The policy that numbers in a program's code stand for. The same numbers have the same name. */
export interface NumbersPolicy {
  readonly name: string;
  readonly definition: PolicyDefinition;
  readonly rates: readonly Rate[];
}

const MAX_NAME = 64;

/** A readable name such as `sharkey/bucket:10:1000:1`; one that would be too long ends in a hash. */
export function policyName(library: string, numbers: string): string {
  const name = `${library}/${numbers}`;
  if (name.length <= MAX_NAME) return name;
  return `${library}/${createHash('sha256').update(numbers).digest('hex').slice(0, 32)}`;
}

/** A duration as policies have it. Fractions of a microsecond are rounded up. */
export function duration(ms: number): string {
  return Number.isInteger(ms) ? `${ms}ms` : `${Math.ceil(ms * 1000)}us`;
}

const MAX_LOGGED = 65_536;
const BUCKETS = 10_000;

/** A rolling window: exact, or of buckets where an exact one would need too much of the server's memory. */
export function rollingWindow(name: string, limit: number, perMs: number, buckets?: number): JsonObject {
  const window = { name, algorithm: 'rolling-window', limit, per: duration(perMs) };
  if (buckets === undefined && limit <= MAX_LOGGED) return window;
  return { ...window, buckets: buckets ?? BUCKETS };
}
