import { isObject, type Cost } from './decision.js';
import { WaterclockError } from './error.js';
import type { Factor } from './transport.js';

// JSON turns NaN into null and drops undefined, and the server would then charge the default cost or the empty key.
// So these mistakes must not leave the client.

interface Arguments {
  readonly policy: string;
  readonly key: string;
  readonly cost?: Cost | undefined;
  readonly tier?: string | undefined;
  readonly factor?: Factor | undefined;
  readonly id?: string | undefined;
}

const LONE_SURROGATE = /\p{Surrogate}/u;

/** Rejects what cannot be sent as it is. */
export function validate({ policy, key, cost, tier, factor, id }: Arguments): void {
  validateText('policy', policy);
  validateText('key', key);
  if (cost !== undefined) validateCost(cost);
  if (tier !== undefined) validateText('tier', tier);
  if (factor !== undefined) validateFactor(factor);
  if (id !== undefined) validateText('id', id);
}

export function validateText(field: string, value: unknown): void {
  if (typeof value !== 'string') throw invalid(field, `\`${field}\` is ${String(value)}; give a string`);
  if (LONE_SURROGATE.test(value)) throw invalid(field, `\`${field}\` has half a surrogate pair; give well-formed text`);
}

const PRINTABLE_ASCII = /^[\x20-\x7e]*$/;

/** Rejects a token that no header field can have: `fetch` would fail as if the server were unavailable. */
export function validateToken(token: unknown): void {
  // The message must not show the token.
  if (typeof token === 'string' && PRINTABLE_ASCII.test(token)) return;
  throw invalid('token', '`token` must be a string of printable ASCII; check it for a line end');
}

/** Rejects what is no JSON object. */
export function validateObject(field: string, value: unknown): void {
  if (!isObject(value)) throw invalid(field, `\`${field}\` is ${String(value)}; give an object`);
}

export function validateCost(cost: Cost): void {
  const counts = typeof cost === 'object' && cost !== null ? Object.values(cost) : [cost];
  if (counts.length === 0) throw invalid('cost', '`cost` names no unit; give a whole number, or whole numbers by unit');
  for (const count of counts) {
    if (!Number.isSafeInteger(count)) {
      throw invalid('cost', `\`cost\` is ${String(count)}; give a whole number, or whole numbers by unit`);
    }
  }
}

function validateFactor(factor: Factor): void {
  if (typeof factor !== 'string' && !Number.isFinite(factor)) {
    throw invalid('factor', `\`factor\` is ${String(factor)}; give a finite number or a decimal string`);
  }
}

export function validateMilliseconds(field: string, value: number): void {
  if (!(value >= 0 && value <= Number.MAX_SAFE_INTEGER)) {
    throw invalid(field, `\`${field}\` is ${String(value)}; give milliseconds, 0 or more`);
  }
}

/** Rejects a bound that would let nothing through. */
export function validateBound(field: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 1) return value;
  throw invalid(field, `\`${field}\` is ${String(value)}; give a whole number, 1 or more`);
}

export function validateChoice(field: string, value: unknown, choices: readonly string[]): void {
  if (!choices.includes(value as string)) {
    throw invalid(field, `\`${field}\` is ${String(value)}; give one of ${choices.join(', ')}`);
  }
}

function invalid(field: string, message: string): WaterclockError {
  return new WaterclockError('invalid', message, { field });
}
