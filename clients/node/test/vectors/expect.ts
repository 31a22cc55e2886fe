import assert from 'node:assert/strict';
import type { Decision } from '../../src/decision.js';
import { onlyKnown, type Json, type JsonObject } from './table.js';

/** What a field of an expectation is compared with. */
type Shown = Record<string, unknown>;

const TIMES = ['retry_after_ms', 'next_unit_ms', 'next_same_ms', 'reset_after_ms'];

/** The decision under the names that the table uses. */
function show(decision: Decision): Shown {
  return {
    allowed: decision.allowed,
    granted: decision.granted,
    limit: decision.limit,
    remaining: decision.remaining,
    retry_after_ms: decision.retryAfterMs,
    next_unit_ms: decision.nextUnitMs,
    next_same_ms: decision.nextSameMs,
    reset_after_ms: decision.resetAfterMs,
    refused_by: decision.refusedBy,
    source: decision.source,
    counter: decision.counter,
    policy: decision.policy,
    key: decision.key,
    cost: decision.cost,
    headers: decision.headers,
    limits: decision.limits.map((limit) => limit.name),
    limit_info: decision.limitInfo,
  };
}

export function expectDecision(decision: Decision, expected: JsonObject): void {
  const shown = show(decision);
  onlyKnown('an expectation', expected, Object.keys(shown));
  for (const [name, value] of Object.entries(expected)) {
    if (TIMES.includes(name) && Array.isArray(value)) expectWithin(name, shown[name], value);
    else if (name === 'headers') expectHeaders(decision.headers, value as JsonObject);
    else if (name === 'limit_info') expectSubset(shown[name], value as JsonObject);
    else assert.deepEqual(shown[name], value, `${name} of ${JSON.stringify(decision)}`);
  }
}

/** Every expected field has its value; others do not matter. */
export function expectSubset(actual: unknown, expected: JsonObject): void {
  assert.ok(typeof actual === 'object' && actual !== null, `expected ${JSON.stringify(expected)}, got ${String(actual)}`);
  for (const [name, value] of Object.entries(expected)) {
    assert.deepEqual((actual as Shown)[name], value, `${name} of ${JSON.stringify(actual)}`);
  }
}

function expectWithin(name: string, actual: unknown, [least, most]: readonly Json[]): void {
  const isWithin = typeof actual === 'number' && actual >= Number(least) && actual <= Number(most);
  assert.ok(isWithin, `${name} is ${String(actual)}, not within ${String(least)} to ${String(most)}`);
}

function expectHeaders(actual: Readonly<Record<string, string>>, expected: JsonObject): void {
  for (const [name, value] of Object.entries(expected)) {
    const pattern = String(value);
    if (pattern.startsWith('~')) assert.match(actual[name] ?? '', new RegExp(pattern.slice(1)), name);
    else assert.equal(actual[name], pattern, name);
  }
}
