import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  rateLimiter,
  type Limiter,
  type Mode,
  type RateLimiterOptions,
  type Result,
} from '../../src/adapters/rate-limiter.js';
import { startFixture } from './fixture.js';

const { client, resp } = await startFixture();

for (const [transport, admin] of Object.entries({ http: client, resp })) {
  describe(`RisingStack's rate-limiter over ${transport}`, () => {
    const limiterOf = (mode: Mode, namespace: string): Limiter =>
      rateLimiter({ client: admin, interval: 60_000, maxInInterval: 5, mode, namespace: `${transport}/${namespace}` });
    const numbers = ({ acknowledged, actionsRecorded, actionsRemaining }: Result) => [
      acknowledged,
      actionsRecorded,
      actionsRemaining,
    ];

    test('binary records all or nothing', async () => {
      const limiter = limiterOf('binary', 'binary');
      const first = await limiter('id', 3);
      assert.deepEqual(numbers(first), [3, 3, 2]);
      assert.ok(first.wait > 0, 'three more do not fit, so there is a wait although these did');
      assert.deepEqual(numbers(await limiter('id', 3)), [0, 0, 2]);
      const last = await limiter('id', 2);
      assert.deepEqual(numbers(last), [2, 2, 0]);
      assert.ok(last.wait > 0 && last.wait <= 60_000);
    });

    test('nary records what fits', async () => {
      const limiter = limiterOf('nary', 'nary');
      assert.deepEqual(numbers(await limiter('id', 3)), [3, 3, 2]);
      assert.deepEqual(numbers(await limiter('id', 3)), [2, 2, 0]);
      assert.deepEqual(numbers(await limiter('id', 3)), [0, 0, 0]);
    });

    test('uniform records everything', async () => {
      const limiter = limiterOf('uniform', 'uniform');
      assert.deepEqual(numbers(await limiter('id', 3)), [3, 3, 2]);
      assert.deepEqual(numbers(await limiter('id', 3)), [3, 3, -1]);
      assert.deepEqual(numbers(await limiter('id')), [1, 1, -2]);
    });

    test('several limits are one decision', async () => {
      const limiter = rateLimiter({
        client: admin,
        namespace: `${transport}/several`,
        limits: { hour: { interval: 3_600_000, maxInInterval: 3 }, minute: { interval: 60_000, maxInInterval: 2 } },
      });
      assert.deepEqual(
        [numbers(await limiter('id')), numbers(await limiter('id'))],
        [
          [1, 1, 1],
          [1, 1, 0],
        ],
      );
      const refused = await limiter('id');
      assert.deepEqual(numbers(refused), [0, 0, 0]);
      assert.ok(refused.wait <= 60_000, 'the hour has room');
    });

    test('both forms of the factory and all forms of the call', async () => {
      const options = { client: admin, interval: 60_000, maxInInterval: 10, namespace: `${transport}/forms` };
      const limiter = await new Promise<Limiter>((resolve, reject) =>
        rateLimiter(options, (error, made) => (error || !made ? reject(error) : resolve(made))),
      );
      const answer = (call: (callback: (error: Error | null, result?: Result) => void) => void) =>
        new Promise<number>((resolve, reject) =>
          call((error, result) => (result ? resolve(result.actionsRemaining) : reject(error))),
        );
      assert.equal(await answer((callback) => limiter(callback)), 9);
      assert.equal(await answer((callback) => limiter(2, callback)), 7);
      assert.equal(await answer((callback) => limiter('id', callback)), 9);
      assert.equal(await answer((callback) => limiter('id', 4, callback)), 5);
      assert.equal((await limiter()).actionsRemaining, 6);
      assert.equal((await rateLimiter(options)('id')).actionsRemaining, 4);
    });
  });
}

test('minDifference only lengthens the wait', async () => {
  const limiter = rateLimiter({
    client,
    interval: 60_000,
    maxInInterval: 2,
    minDifference: 90_000,
    namespace: 'apart',
  });
  const results = [await limiter('id'), await limiter('id'), await limiter('id')];
  assert.deepEqual(
    results.map((result) => result.acknowledged),
    [1, 1, 0],
  );
  assert.deepEqual(
    results.map((result) => result.wait),
    [90_000, 90_000, 90_000],
  );
});

test('more than the limit never fits', async () => {
  const limiter = rateLimiter({ client, interval: 60_000, maxInInterval: 2, namespace: 'never' });
  assert.equal((await limiter('id', 3)).wait, Infinity);
});

test('buckets are passed on', async () => {
  await rateLimiter({ client, interval: 60_000, maxInInterval: 2, buckets: 600 })('id');
  const policy = await client.getPolicy('rate-limiter/binary:2:60000:600');
  assert.deepEqual(policy?.['limits'], [
    { algorithm: 'rolling-window', buckets: 600, limit: 2, name: '0', per_us: 60_000_000 },
  ]);
  await rateLimiter({ client, interval: 60_000, maxInInterval: 100_000 })('id');
  assert.notEqual(await client.getPolicy('rate-limiter/binary:100000:60000'), null);
});

test('a failure goes to the callback', async () => {
  const limiter = rateLimiter({ client, policy: 'unknown', interval: 1000, maxInInterval: 1, warn: () => {} });
  const error = await new Promise<Error | null>((resolve) => limiter('id', (error) => resolve(error)));
  assert.match(error?.message ?? '', /there is no policy/);
});

test('options and calls that make no sense throw', () => {
  const good = { client, interval: 1000, maxInInterval: 1 };
  const bad: object[] = [
    { ...good, interval: 0 },
    { ...good, interval: undefined },
    { ...good, maxInInterval: 0 },
    { ...good, minDifference: -1 },
    { ...good, buckets: 0 },
    { ...good, mode: 'other' },
    { client, limits: [] },
    { client, limits: [{ interval: 1000 }] },
  ];
  for (const options of bad) assert.throws(() => rateLimiter(options as RateLimiterOptions), RangeError);
  const limiter = rateLimiter(good) as (...parameters: unknown[]) => unknown;
  assert.throws(() => limiter('id', 0), RangeError);
  assert.throws(() => limiter('id', 1.5), RangeError);
  assert.throws(() => limiter(() => {}, 'id'), TypeError);
});
