import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
// @ts-expect-error -- the package has no types
import Limiter from 'ratelimiter';
import { RateLimiterService, type Limitation, type LimiterInfo } from '../../src/adapters/misskey.js';
import { connectToPort } from '../transports.js';
import { startFixture } from './fixture.js';
import { unusedPort } from '../impostor.js';
import { startRedis } from './redis.js';
import { Stopwatch } from './elapsed.js';

const { client, resp } = await startFixture(`
[policies.endpoint]
mode = "count-refusals"
limits = [
  { name = "min", algorithm = "rolling-window", limit = 1, per = "1m" },
  { name = "max", algorithm = "rolling-window", limit = 2, per = "1h" },
]
`);
const redis = await startRedis();

/** One window of the library that Misskey uses. */
function original(id: string, max: number, duration: number): Promise<LimiterInfo> {
  return new Promise((resolve, reject) => {
    new Limiter({ id, max, duration, db: redis }).get((error: Error | null, info: LimiterInfo) =>
      error ? reject(error) : resolve(info),
    );
  });
}

for (const [transport, admin] of Object.entries({ http: client, resp })) {
  describe(`Misskey over ${transport}`, () => {
    const { limit } = new RateLimiterService({ client: admin, disabled: false });

    test('max and duration are as the original has them', async () => {
      const limitation = { key: `${transport}/max`, max: 3, duration: 60_000 };
      const watch = new Stopwatch();
      for (let call = 1; call <= 6; call += 1) {
        const theirs = await original(`a:${limitation.key}`, 3, 60_000);
        const ours = await limit(limitation, 'a');
        assert.equal(ours === null, theirs.remaining > 0, `call ${call}`);
        if (ours === null) continue;
        assert.equal(ours.code, 'RATE_LIMIT_EXCEEDED');
        assert.deepEqual([ours.info.total, ours.info.remaining], [theirs.total, theirs.remaining]);
        watch.assertSameTime(ours.info.resetMs, theirs.resetMs, `call ${call}`);
        assert.equal(ours.info.reset, Math.ceil(ours.info.resetMs / 1000));
      }
    });

    test('minInterval goes first, and what it refuses is not counted in max', async () => {
      const limitation = { key: `${transport}/both`, max: 2, duration: 3_600_000, minInterval: 60_000 };
      const watch = new Stopwatch();
      const min = await original(`a:${limitation.key}:min`, 1, 60_000);
      assert.equal(min.remaining, 1);
      assert.equal(await limit(limitation, 'a'), null);
      for (let call = 0; call < 5; call += 1) {
        const theirs = await original(`a:${limitation.key}:min`, 1, 60_000);
        const ours = await limit(limitation, 'a');
        assert.equal(ours?.code, 'BRIEF_REQUEST_INTERVAL');
        assert.deepEqual([ours.info.total, ours.info.remaining], [theirs.total, theirs.remaining]);
        watch.assertSameTime(ours.info.resetMs, theirs.resetMs, `call ${call}`);
      }
      const long = await admin.peek('misskey/max:2:3600000', `a/${limitation.key}`);
      assert.equal(long.remaining, 1);
    });

    test('a factor divides max and multiplies minInterval', async () => {
      const limitation = { key: `${transport}/factor`, max: 5, duration: 60_000 };
      const allowed = [];
      for (let call = 0; call < 5; call += 1) allowed.push((await limit(limitation, 'a', 2)) === null);
      assert.deepEqual(allowed, [true, true, true, false, false]);
      const brief = { key: `${transport}/brief`, minInterval: 30_000 };
      assert.equal(await limit(brief, 'a', 2), null);
      const watch = new Stopwatch();
      const refusal = await limit(brief, 'a', 2);
      watch.assertSameTime(refusal?.info.resetMs ?? 0, Date.now() + 60_000, 'twice the interval');
    });

    test('one policy of the server for both', async () => {
      const service = new RateLimiterService({ client: admin, disabled: false, policy: { [transport]: 'endpoint' } });
      const limitation = { key: transport, max: 2, duration: 3_600_000, minInterval: 60_000 };
      assert.equal(await service.limit(limitation, 'a'), null);
      assert.equal((await service.limit(limitation, 'a'))?.code, 'BRIEF_REQUEST_INTERVAL');
    });
  });
}

test('both generations of refusals', async () => {
  const limitation = { key: 'generations', max: 1, duration: 60_000 };
  const returning = new RateLimiterService({ client, disabled: false });
  assert.equal(await returning.limit(limitation, 'a'), null);
  assert.equal((await returning.limit(limitation, 'a'))?.code, 'RATE_LIMIT_EXCEEDED');

  const rejecting = new RateLimiterService({ client, disabled: false, refusal: 'reject' });
  assert.equal(await rejecting.limit(limitation, 'b'), null);
  await assert.rejects(rejecting.limit(limitation, 'b'), (refusal: { code: string; info: LimiterInfo }) => {
    assert.deepEqual([refusal.code, refusal.info.total], ['RATE_LIMIT_EXCEEDED', 1]);
    return true;
  });

  const oldest = new RateLimiterService({ client, disabled: false, refusal: 'reject-code' });
  await assert.rejects(oldest.limit(limitation, 'b'), (code) => code === 'RATE_LIMIT_EXCEEDED');
});

test('a server that does not answer', async () => {
  const down = connectToPort('http', await unusedPort(), {});
  const limitation = { key: 'k', max: 1, duration: 60_000 };
  await assert.rejects(new RateLimiterService({ client: down, disabled: false }).limit(limitation, 'a'), {
    kind: 'unavailable',
  });
  const rejecting = new RateLimiterService({ client: down, disabled: false, refusal: 'reject' });
  await assert.rejects(rejecting.limit(limitation, 'a'), { code: 'ERR' });

  const closed = connectToPort('http', await unusedPort(), { onUnavailable: 'refuse' });
  const refusal = await new RateLimiterService({ client: closed, disabled: false }).limit(limitation, 'a');
  assert.ok(refusal !== null && refusal.info.resetMs <= Date.now() + 1000, 'the server may be back soon');
});

test('what limits nothing passes without a call', async () => {
  const down = connectToPort('http', await unusedPort(), {});
  const { limit } = new RateLimiterService({ client: down, disabled: false });
  const nothing: Limitation[] = [
    { key: 'k' },
    { key: 'k', max: 1 },
    { key: 'k', duration: 1 },
    { key: 'k', minInterval: 0 },
  ];
  for (const limitation of nothing) assert.equal(await limit(limitation, 'a'), null);
  assert.equal(await limit({ key: 'k', max: 1, duration: 1 }, 'a', 0), null);
  assert.equal(await new RateLimiterService({ client: down }).limit({ key: 'k', max: 1, duration: 1 }, 'a'), null);
});
