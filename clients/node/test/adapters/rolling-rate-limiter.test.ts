import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { InMemoryRateLimiter } from 'rolling-rate-limiter';
// @ts-expect-error -- the package has no types
import originalLegacy from 'rolling-rate-limiter-0.1';
import { legacyRateLimiter, RateLimiter, type RateLimitInfo } from '../../src/adapters/rolling-rate-limiter.js';
import { connectToPort } from '../transports.js';
import { startFixture } from './fixture.js';
import { unusedPort } from '../impostor.js';
import { Stopwatch } from './elapsed.js';

const { client, resp } = await startFixture();

const cases = {
  'a count': { interval: 60_000, maxInInterval: 3 },
  'a count of one': { interval: 60_000, maxInInterval: 1 },
  'a count and a minimum difference': { interval: 60_000, maxInInterval: 3, minDifference: 20_000 },
  'a minimum difference above the interval': { interval: 20_000, maxInInterval: 5, minDifference: 60_000 },
};

for (const [transport, admin] of Object.entries({ http: client, resp })) {
  describe(`rolling-rate-limiter over ${transport}`, () => {
    for (const [name, numbers] of Object.entries(cases)) {
      test(`${name}: the same answers as the original`, async () => {
        const ours = new RateLimiter({ client: admin, namespace: `${transport}:`, ...numbers });
        const theirs = new InMemoryRateLimiter(numbers);
        const watch = new Stopwatch();
        for (let call = 1; call <= 7; call += 1) {
          assertSameInfo(await ours.wouldLimitWithInfo(7), await theirs.wouldLimitWithInfo(7), watch, `peek ${call}`);
          assertSameInfo(await ours.limitWithInfo(7), await theirs.limitWithInfo(7), watch, `call ${call}`);
        }
        assert.deepEqual(
          [await ours.limit(7), await ours.wouldLimit(7)],
          [await theirs.limit(7), await theirs.wouldLimit(7)],
        );
        await ours.clear(7);
        await theirs.clear(7);
        assertSameInfo(await ours.limitWithInfo(7), await theirs.limitWithInfo(7), watch, 'after clear');
      });
    }

    test('blocked actions count', async () => {
      const limiter = new RateLimiter({
        client: admin,
        namespace: `${transport}:blocked:`,
        interval: 60_000,
        maxInInterval: 1,
      });
      assert.equal(await limiter.limit('a'), false);
      await delay(50);
      const blocked = await limiter.limitWithInfo('a');
      assert.deepEqual([blocked.blocked, blocked.millisecondsUntilAllowed], [true, 60_000]);
    });

    test('the function of version 0.1', async () => {
      const numbers = { interval: 60_000, maxInInterval: 2 };
      const ours = legacyRateLimiter({ client: admin, namespace: `${transport}:0.1:`, ...numbers });
      const theirs = originalLegacy(numbers);
      const watch = new Stopwatch();
      for (let call = 1; call <= 4; call += 1) {
        const [ourMs, ourLeft] = await answerOf((callback) => ours('a', callback));
        const [theirMs, theirLeft] = await answerOf((callback) => theirs('a', callback));
        assert.equal(ourLeft, theirLeft, `call ${call}`);
        assert.equal(ourMs > 0, theirMs > 0, `call ${call}`);
        watch.assertSameTime(ourMs, theirMs, `call ${call}`);
      }
      assert.deepEqual(await answerOf((callback) => ours(callback)), [0, 1]);
    });
  });
}

test('a key that an operator blocked', async () => {
  const limiter = new RateLimiter({ client, interval: 60_000, maxInInterval: 9 });
  await limiter.limit('a');
  await client.setOverride('rolling-rate-limiter/9:60000', 'a', { block: true });
  for (const info of [await limiter.limitWithInfo('a'), await limiter.wouldLimitWithInfo('a')]) {
    assert.deepEqual([info.blocked, info.millisecondsUntilAllowed], [true, Infinity]);
  }
});

test('fail modes', async () => {
  const port = await unusedPort();
  const limiter = (onUnavailable: 'allow' | 'refuse' | 'throw') =>
    new RateLimiter({ client: connectToPort('http', port, { onUnavailable }), interval: 1000, maxInInterval: 1 });
  assert.deepEqual([await limiter('allow').limit('a'), await limiter('allow').wouldLimit('a')], [false, false]);
  assert.deepEqual([await limiter('refuse').limit('a'), await limiter('refuse').wouldLimit('a')], [true, true]);
  await assert.rejects(limiter('throw').limit('a'), { kind: 'unavailable' });
});

test('options that make no sense throw', () => {
  const good = { client, interval: 1000, maxInInterval: 1 };
  for (const bad of [{ interval: 0 }, { maxInInterval: 0 }, { minDifference: -1 }]) {
    assert.throws(() => new RateLimiter({ ...good, ...bad }), RangeError);
  }
});

function assertSameInfo(ours: RateLimitInfo, theirs: RateLimitInfo, watch: Stopwatch, what: string): void {
  watch.assertSameTime(ours.millisecondsUntilAllowed, theirs.millisecondsUntilAllowed, what);
  const { millisecondsUntilAllowed: _, ...rest } = ours;
  const { millisecondsUntilAllowed: __, ...expected } = theirs;
  assert.deepEqual(rest, expected, what);
}

function answerOf(
  call: (callback: (error: Error | null, msLeft?: number, actionsLeft?: number) => void) => void,
): Promise<[number, number]> {
  return new Promise((resolve, reject) =>
    call((error, msLeft, actionsLeft) => (error ? reject(error) : resolve([msLeft ?? NaN, actionsLeft ?? NaN]))),
  );
}
