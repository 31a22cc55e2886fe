import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Waterclock } from '../src/index.js';
import { readDecision, type JsonObject } from '../src/decision.js';
import { WaterclockError } from '../src/error.js';

const limit = { name: 'one', allowed: false, limit: 1, remaining: 0, retry_after_us: 1, next_unit_us: 2, reset_after_us: 3 };
const raw: JsonObject = {
  ...{ policy: 'demo', key: 'alice', cost: 1, allowed: false, granted: 0, limit: 1, remaining: 0 },
  ...{ retry_after_us: 1, next_unit_us: 1_000, next_same_us: 1_001, reset_after_us: 2_999 },
  ...{ refused_by: ['one'], limits: [limit], source: 'authoritative' },
};

test('times are rounded up', () => {
  const decision = readDecision(raw, {});
  const { retryAfterMs, nextUnitMs, nextSameMs, resetAfterMs } = decision;
  assert.deepEqual([retryAfterMs, nextUnitMs, nextSameMs, resetAfterMs], [1, 1, 2, 3]);
  assert.equal(decision.limits[0]?.retryAfterMs, 1);
});

const isUnavailable = (error: unknown) => error instanceof WaterclockError && error.kind === 'unavailable';

test('fields that the client does not know are kept', () => {
  const decision = readDecision({ ...raw, invented_later: [1] }, {});
  assert.deepEqual(decision.raw['invented_later'], [1]);
});

for (const name of ['allowed', 'granted', 'remaining', 'retry_after_us', 'limits', 'source']) {
  test(`JSON without \`${name}\` is no decision`, () => {
    const { [name]: _, ...rest } = raw;
    assert.throws(() => readDecision(rest, {}), isUnavailable);
  });
}

test('what is no object is no decision, and no limit', () => {
  assert.throws(() => readDecision(null, {}), isUnavailable);
  assert.throws(() => readDecision({ ...raw, limits: [null] }, {}), isUnavailable);
});

test('fewer decisions than checks are no answer', async () => {
  const fetch = async () => Response.json({ decisions: [{ ...raw, allowed: true }] });
  const client = new Waterclock({ url: 'http://127.0.0.1:1', fetch });
  const check = { policy: 'demo', key: 'alice' };
  assert.equal((await client.checkAll([check])).allowed, true);
  await assert.rejects(client.checkAll([check, check]), isUnavailable);
});
