import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FactorCache } from '../../src/adapters/sharkey/factor.js';
import {
  disabledLimitInfo,
  hasMaxLimit,
  hasMinLimit,
  isLegacyRateLimit,
  sendRateLimitHeaders,
  SkRateLimiterService,
  type Keyed,
  type LimitInfo,
  type RateLimit,
} from '../../src/adapters/sharkey.js';
import { connectToPort } from '../transports.js';
import { counting, startFixture } from './fixture.js';
import { unusedPort } from '../impostor.js';

const { client, resp } = await startFixture(`
[policies.endpoint]
limits = ["2/h"]
`);
const bucket = (key: string, size: number, dripRate = 60_000): Keyed<RateLimit> => ({
  type: 'bucket',
  key,
  size,
  dripRate,
});

for (const [transport, admin] of Object.entries({ http: client, resp })) {
  describe(`Sharkey over ${transport}`, () => {
    const { limit } = new SkRateLimiterService({ client: admin, disabled: false });

    test('a bucket drips', async () => {
      const notes = bucket(`${transport}/notes`, 2);
      assert.deepEqual(await limit(notes, 'alice'), {
        blocked: false,
        remaining: 1,
        resetSec: 0,
        resetMs: 0,
        fullResetSec: 60,
        fullResetMs: 60_000,
      });
      const filled = await limit(notes, 'alice');
      assert.deepEqual([filled.blocked, filled.remaining], [false, 0]);
      assert.ok(filled.resetMs > 0 && filled.resetMs <= 60_000, 'the call that fills the bucket has a time, too');
      const refused = await limit(notes, 'alice');
      assert.deepEqual([refused.blocked, refused.remaining], [true, 0]);
      assert.equal(refused.resetSec, Math.ceil(refused.resetMs / 1000));
      assert.ok(refused.fullResetMs > refused.resetMs);
      assert.equal((await limit(notes, 'bob')).blocked, false, 'actors have their own buckets');
      assert.equal(
        (await limit({ ...notes, key: 'other' }, `alice-${transport}`)).blocked,
        false,
        'and so do resources',
      );
    });

    test('max and duration', async () => {
      const legacy = { key: `${transport}/max`, max: 3, duration: 180_000 };
      const infos = [
        await limit(legacy, 'a'),
        await limit(legacy, 'a'),
        await limit(legacy, 'a'),
        await limit(legacy, 'a'),
      ];
      assert.deepEqual(
        infos.map((info) => info.remaining),
        [2, 1, 0, 0],
      );
      assert.deepEqual(
        infos.map((info) => info.blocked),
        [false, false, false, true],
      );
      assert.equal(infos[0]!.fullResetMs, 60_000);
    });

    test('minInterval alone, and with max', async () => {
      const alone = { key: `${transport}/min`, minInterval: 60_000 };
      assert.deepEqual([(await limit(alone, 'a')).blocked, (await limit(alone, 'a')).blocked], [false, true]);
      const both = { key: `${transport}/both`, max: 10, duration: 600_000, minInterval: 30_000 };
      const first = await limit(both, 'a');
      const second = await limit(both, 'a');
      assert.deepEqual([first.blocked, second.blocked], [false, true]);
      assert.ok(second.resetMs <= 30_000);
    });

    test('a factor scales size and drip rate, whichever signature gives it', async () => {
      const third = await limit(bucket(`${transport}/factor`, 10), 'a', 2);
      assert.deepEqual([third.remaining, third.fullResetMs], [4, 120_000]);
      const service = new SkRateLimiterService({
        client: admin,
        disabled: false,
        factorOf: (user) => (user === null ? 5 : 2),
      });
      const ofUser = await service.limit(bucket(`${transport}/user`, 10), { id: 'a' });
      assert.deepEqual([ofUser.remaining, ofUser.fullResetMs], [4, 120_000]);
      const ofAddress = await service.limit(bucket(`${transport}/address`, 10), 'ip-1');
      assert.deepEqual([ofAddress.remaining, ofAddress.fullResetMs], [1, 300_000]);
      const fractional = await limit(bucket(`${transport}/third`, 10), 'a', 0.1 + 0.2);
      assert.equal(fractional.remaining, 33);
    });
  });
}

test('keys that callers make up do not become policies', async () => {
  const { client: counted, calls } = counting(client, 'putPolicy');
  const { limit } = new SkRateLimiterService({ client: counted, disabled: false });
  await Promise.all(Array.from({ length: 50 }, (_, i) => limit(bucket(`/proxy/${i}/${'x'.repeat(2000)}`, 7), 'a')));
  assert.equal(calls(), 1);
  assert.equal((await client.getPolicy('sharkey/bucket:7:60000:1'))?.['headers'], 'legacy');
});

test('disabled limits give one frozen info', async () => {
  const { limit } = new SkRateLimiterService({ client, disabled: false });
  const cases: [Keyed<RateLimit>, number?][] = [
    [bucket('k', 1), 0],
    [{ key: 'k' }],
    [{ key: 'k', max: 5 }],
    [{ key: 'k', max: 5, duration: 0 }],
    [{ key: 'k', minInterval: 0 }],
  ];
  for (const [each, factor] of cases) assert.equal(await limit(each, 'a', factor), disabledLimitInfo);
  assert.equal(
    await new SkRateLimiterService({ client, disabled: true }).limit(bucket('k', 1), 'a'),
    disabledLimitInfo,
  );
  assert.ok(Object.isFrozen(disabledLimitInfo));
});

test('NODE_ENV test disables', async () => {
  const before = process.env['NODE_ENV'];
  process.env['NODE_ENV'] = 'test';
  try {
    assert.equal(await new SkRateLimiterService({ client }).limit(bucket('k', 1), 'a'), disabledLimitInfo);
  } finally {
    if (before === undefined) delete process.env['NODE_ENV'];
    else process.env['NODE_ENV'] = before;
  }
});

test('limits that make no sense are errors', async () => {
  const { limit } = new SkRateLimiterService({ client, disabled: false });
  const cases: [Keyed<RateLimit>, number?][] = [
    [bucket('k', 1), -1],
    [bucket('k', 1), NaN],
    [bucket('k', 0)],
    [bucket('k', 1, 0)],
    [{ type: 'bucket', key: 'k', size: 1, dripSize: 0 }],
    [{ key: 'k', max: 1, duration: -1 }],
    [{ key: 'k', max: 0, duration: 1 }],
    [{ key: 'k', minInterval: -1 }],
  ];
  for (const [each, factor] of cases) await assert.rejects(limit(each, 'a', factor), Error, JSON.stringify(each));
});

test('a policy of the server, by key', async () => {
  const policy = { 'notes/create': 'endpoint' };
  const { limit } = new SkRateLimiterService({ client, policy, disabled: false, warn: () => {} });
  const first = await limit(bucket('notes/create', 100), 'a');
  assert.deepEqual([first.blocked, first.remaining, first.resetMs], [false, 1, 0]);
  const second = await limit(bucket('notes/create', 100), 'a');
  assert.deepEqual([second.remaining, second.resetMs > 0], [0, true]);
  const third = await limit(bucket('notes/create', 100), 'a');
  assert.deepEqual([third.blocked, third.resetMs > 0], [true, true]);
});

test('a blocked key has no time to retry', async () => {
  const { limit } = new SkRateLimiterService({ client, disabled: false });
  const once = bucket('blocked', 3);
  await limit(once, 'a');
  await client.setOverride('sharkey/bucket:3:60000:1', 'a/blocked', { block: true });
  const info = await limit(once, 'a');
  assert.deepEqual([info.blocked, info.resetMs, info.resetSec], [true, Infinity, Infinity]);
  assert.deepEqual(headersOf(info), { 'X-RateLimit-Clear': '0.000', 'X-RateLimit-Remaining': '0' });
});

test('fail modes', async () => {
  const port = await unusedPort();
  const open = new SkRateLimiterService({
    client: connectToPort('http', port, { onUnavailable: 'allow' }),
    disabled: false,
  });
  assert.equal(await open.limit(bucket('k', 1), 'a'), disabledLimitInfo);
  const closed = new SkRateLimiterService({
    client: connectToPort('http', port, { onUnavailable: 'refuse' }),
    disabled: false,
  });
  assert.equal((await closed.limit(bucket('k', 1), 'a')).blocked, true);
  const strict = new SkRateLimiterService({ client: connectToPort('http', port, {}), disabled: false });
  await assert.rejects(strict.limit(bucket('k', 1), 'a'), { kind: 'unavailable' });
});

test('headers', () => {
  const info = { blocked: false, remaining: 4, resetSec: 0, resetMs: 0, fullResetSec: 13, fullResetMs: 12_345 };
  assert.deepEqual(headersOf(info), { 'X-RateLimit-Clear': '12.345', 'X-RateLimit-Remaining': '4' });
  assert.deepEqual(headersOf({ ...info, blocked: true, remaining: 0, resetSec: 2, resetMs: 1500 }), {
    'X-RateLimit-Clear': '12.345',
    'X-RateLimit-Remaining': '0',
    'Retry-After': '2',
    'X-RateLimit-Reset': '1.500',
  });
  assert.deepEqual(headersOf(disabledLimitInfo), {
    'X-RateLimit-Clear': '0.000',
    'X-RateLimit-Remaining': '9007199254740991',
  });
});

test('type guards', () => {
  assert.deepEqual([isLegacyRateLimit({ max: 1 }), isLegacyRateLimit({ type: 'bucket', size: 1 })], [true, false]);
  assert.deepEqual([hasMaxLimit({ max: 1, duration: 1 }), hasMaxLimit({ max: 1 })], [true, false]);
  assert.deepEqual([hasMinLimit({ minInterval: 0 }), hasMinLimit({})], [true, false]);
});

test('a factor is asked for once a minute, and again after a failure', async () => {
  let now = 0;
  const asked: (string | null)[] = [];
  const cache = new FactorCache(
    (user) => {
      asked.push(user?.id ?? null);
      if (user?.id === 'broken') throw new Error('roles are unknown');
      return asked.length;
    },
    () => now,
  );
  assert.deepEqual(await Promise.all([cache.get({ id: 'a' }), cache.get({ id: 'a' }), cache.get(null)]), [1, 1, 2]);
  now = 59_999;
  assert.equal(await cache.get({ id: 'a' }), 1);
  now = 60_000;
  assert.equal(await cache.get({ id: 'a' }), 3);
  await assert.rejects(cache.get({ id: 'broken' }), /roles are unknown/);
  await assert.rejects(cache.get({ id: 'broken' }), /roles are unknown/);
  assert.deepEqual(asked, ['a', null, 'a', 'broken', 'broken']);
});

function headersOf(info: LimitInfo): Record<string, string> {
  const headers: Record<string, string> = {};
  sendRateLimitHeaders({ header: (name: string, value: string) => (headers[name] = value) }, info);
  return headers;
}
