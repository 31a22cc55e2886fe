import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as flexible from 'rate-limiter-flexible';
import { RateLimiterMemory, RateLimiterRes, RateLimiterUnion } from 'rate-limiter-flexible';
import type { Client } from '../../src/client.js';
import { rateLimiterWaterclock, type RateLimiterWaterclockOptions } from '../../src/adapters/rate-limiter-flexible.js';
import { Waterclock } from '../../src/index.js';
import { connectToPort } from '../transports.js';
import { startFixture } from './fixture.js';
import { unusedPort } from '../impostor.js';
import { Stopwatch } from './elapsed.js';

const { client, resp, checker } = await startFixture(`
[policies.bucket]
limits = ["3/m"]
`);
const RateLimiterWaterclock = rateLimiterWaterclock(flexible);

type Numbers = Omit<RateLimiterWaterclockOptions, 'client'>;
type Method = 'consume' | 'penalty' | 'reward' | 'get' | 'set' | 'block' | 'delete';
type Step = [method: Method, ...parameters: number[]];

/** The same calls to both; results, rejections and times are the same. */
async function compare(admin: Client, numbers: Numbers, steps: readonly Step[]): Promise<void> {
  const ours = new RateLimiterWaterclock({ client: admin, ...numbers });
  const theirs = new RateLimiterMemory(numbers as ConstructorParameters<typeof RateLimiterMemory>[0]);
  const watch = new Stopwatch();
  for (const [index, [method, ...parameters]] of steps.entries()) {
    const what = `${index}: ${method}(${parameters.join(', ')})`;
    const expected = await outcome(theirs, method, parameters);
    const actual = await outcome(ours, method, parameters);
    assert.equal(actual.rejected, expected.rejected, what);
    if (!(expected.value instanceof RateLimiterRes)) {
      assert.deepEqual(actual.value, expected.value, what);
      continue;
    }
    assert.ok(actual.value instanceof RateLimiterRes, what);
    watch.assertSameTime(actual.value.msBeforeNext, expected.value.msBeforeNext, what);
    assert.deepEqual(
      { ...actual.value.toJSON(), msBeforeNext: 0 },
      { ...expected.value.toJSON(), msBeforeNext: 0 },
      what,
    );
  }
}

async function outcome(
  limiter: object,
  method: Method,
  parameters: readonly number[],
): Promise<{ rejected: boolean; value: unknown }> {
  const call = Reflect.get(limiter, method) as (...parameters: unknown[]) => Promise<unknown>;
  try {
    return { rejected: false, value: await call.call(limiter, 'key', ...parameters) };
  } catch (value) {
    return { rejected: true, value };
  }
}

for (const [transport, admin] of Object.entries({ http: client, resp })) {
  describe(`rate-limiter-flexible over ${transport}`, () => {
    const numbers = (keyPrefix: string, more: Partial<Numbers> = {}): Numbers => ({
      points: 4,
      duration: 60,
      keyPrefix: `${transport}-${keyPrefix}`,
      ...more,
    });

    test('consume', () =>
      compare(admin, numbers('consume'), [
        ['get'],
        ['consume'],
        ['get'],
        ['consume', 2],
        ['consume', 2],
        ['get'],
        ['consume'],
        ['delete'],
        ['delete'],
        ['consume', 6],
      ]));

    test('penalty and reward', () =>
      compare(admin, numbers('penalty'), [
        ['penalty'],
        ['penalty', 2],
        ['get'],
        ['consume'],
        ['reward', 3],
        ['get'],
        ['penalty', 5],
        ['consume'],
        ['reward', 3],
        ['get'],
      ]));

    test('set', () =>
      compare(admin, numbers('set'), [
        ['set', 3, 60],
        ['get'],
        ['consume'],
        ['consume'],
        ['set', 1, 30],
        ['get'],
        ['consume'],
        ['set', 2, 60],
        ['get'],
        ['set', 2, 0],
        ['get'],
      ]));

    test('block', () =>
      compare(admin, numbers('block'), [
        ['consume'],
        ['block', 30],
        ['get'],
        ['delete'],
        ['get'],
        ['consume'],
        ['block', 0],
        ['get'],
      ]));

    test('blocked keys are refused for as long as the block lasts', async () => {
      const limiter = new RateLimiterWaterclock({ client: admin, ...numbers('refused') });
      await limiter.block('key', 30);
      const refusal = await refusalOf(limiter.consume('key'));
      assert.ok(refusal.msBeforeNext > 0 && refusal.msBeforeNext <= 30_000);
      assert.equal(refusal.remainingPoints, 0);
    });

    test('blockDuration', () =>
      compare(admin, numbers('duration', { points: 1, blockDuration: 600 }), [['consume'], ['consume'], ['get']]));

    test('points that never come back', () =>
      compare(admin, numbers('endless', { duration: 0 }), [['consume', 3], ['get'], ['consume', 2], ['get']]));

    test('a window of its own ends', async () => {
      const limiter = new RateLimiterWaterclock({ client: admin, ...numbers('short') });
      await limiter.set('key', 4, 0.2);
      const { msBeforeNext } = (await limiter.get('key')) ?? { msBeforeNext: 0 };
      assert.ok(msBeforeNext <= 200);
      while ((await limiter.get('key')) !== null);
      assert.equal((await limiter.consume('key')).remainingPoints, 3);
    });
  });
}

test('execEvenly delays all but the first', async () => {
  const limiter = new RateLimiterWaterclock({
    client,
    points: 1000,
    duration: 60,
    execEvenly: true,
    keyPrefix: 'evenly',
  });
  await limiter.consume('key');
  const start = performance.now();
  const { msBeforeNext } = await limiter.consume('key');
  // At least 60 ms, the duration by the points; a timer may be a millisecond early.
  assert.ok(performance.now() - start >= 59);
  assert.ok(msBeforeNext <= 59_940);
});

test('a window cannot be longer or shorter for one call', async () => {
  const limiter = new RateLimiterWaterclock({ client, points: 1, duration: 60, keyPrefix: 'custom' });
  await assert.rejects(limiter.consume('key', 1, { customDuration: 5 }), /customDuration/);
  assert.equal((await limiter.consume('key', 1, { customDuration: 60 })).remainingPoints, 0);
});

test('a union', async () => {
  const both = new RateLimiterUnion(
    new RateLimiterWaterclock({ client, points: 1, duration: 60, keyPrefix: 'narrow' }),
    new RateLimiterMemory({ points: 5, duration: 60, keyPrefix: 'wide' }),
  );
  const results = await both.consume('key');
  assert.deepEqual([results['narrow']?.remainingPoints, results['wide']?.remainingPoints], [0, 4]);
  await assert.rejects(both.consume('key'), (refusals: Record<string, RateLimiterRes>) => {
    assert.deepEqual(Object.keys(refusals), ['narrow']);
    assert.ok(refusals['narrow'] instanceof RateLimiterRes);
    return true;
  });
});

test('insurance answers for a server that does not', async () => {
  const down = connectToPort('http', await unusedPort(), {});
  const insuranceLimiter = new RateLimiterMemory({ points: 1, duration: 60 });
  const insured = new RateLimiterWaterclock({
    client: down,
    points: 100,
    duration: 60,
    insuranceLimiter,
    blockDuration: 9,
  });
  assert.equal(insuranceLimiter.blockDuration, 9);
  assert.equal((await insured.consume('key')).remainingPoints, 0);
  assert.equal((await refusalOf(insured.consume('key'))).remainingPoints, 0);
  assert.equal((await insured.get('key'))?.consumedPoints, 2);
  assert.equal(await insured.delete('key'), true);

  const uninsured = new RateLimiterWaterclock({ client: down, points: 1, duration: 60 });
  await assert.rejects(uninsured.consume('key'), { kind: 'unavailable' });
});

test('it is an insurance of the package’s own limiters', async () => {
  const insuranceLimiter = new RateLimiterWaterclock({ client, points: 1, duration: 60, keyPrefix: 'insurance' });
  const broken = { rlflxIncr: () => Promise.reject(new Error('no Redis')), defineCommand() {} };
  const redis = new flexible.RateLimiterRedis({
    storeClient: broken,
    points: 5,
    duration: 60,
    execEvenly: false,
    blockDuration: 7,
    // The package's types name its own class, which is not exported as a value.
    insuranceLimiter: insuranceLimiter as unknown as RateLimiterMemory,
  });
  assert.equal(insuranceLimiter.blockDuration, 7);
  assert.equal((await redis.consume('key')).remainingPoints, 0);
  assert.equal((await refusalOf(redis.consume('key'))).msBeforeNext, 7000);
});

test('a policy of the server decides', async () => {
  const limiter = new RateLimiterWaterclock({ client, policy: 'bucket', points: 3, duration: 60, keyPrefix: '' });
  const results = [await limiter.consume('key'), await limiter.consume('key'), await limiter.consume('key')];
  assert.deepEqual(
    results.map((result) => result.remainingPoints),
    [2, 1, 0],
  );
  const refusal = await refusalOf(limiter.consume('key'));
  assert.deepEqual([refusal.remainingPoints, refusal.consumedPoints], [0, 4]);
  assert.ok(refusal.msBeforeNext <= 20_000);
});

test('a token that may only check', async () => {
  const warnings: string[] = [];
  const limiter = new RateLimiterWaterclock({
    client: checker,
    policy: 'bucket',
    points: 3,
    duration: 60,
    blockDuration: 9,
    keyPrefix: 'checker',
    warn: (message) => warnings.push(message),
  });
  await limiter.consume('key', 3);
  assert.ok((await refusalOf(limiter.consume('key'))).msBeforeNext > 9000, 'it is refused, but not blocked');
  assert.match(warnings.at(-1) ?? '', /cannot block a key for 9 s/);
  await client.setOverride('bucket', 'checker:key', { block: true, expires_in: '1m' });
  assert.equal((await refusalOf(limiter.consume('key'))).msBeforeNext, -1);
});

test('fail modes of the client', async () => {
  const port = await unusedPort();
  const numbers = { points: 3, duration: 60 };
  const open = new RateLimiterWaterclock({
    client: connectToPort('http', port, { onUnavailable: 'allow' }),
    ...numbers,
  });
  assert.ok((await open.consume('key')) instanceof RateLimiterRes);
  const closed = new RateLimiterWaterclock({
    client: connectToPort('http', port, { onUnavailable: 'refuse' }),
    ...numbers,
  });
  assert.equal((await refusalOf(closed.consume('key'))).remainingPoints, 0);
});

test('a key that only the fail mode refused is not blocked', async () => {
  const requests: string[] = [];
  const overloaded = { status: 503, headers: { 'content-type': 'application/problem+json' } };
  const fetch = async (url: unknown) => {
    requests.push(String(url));
    return String(url).endsWith('/v1/check') ? Response.json({ detail: 'overloaded' }, overloaded) : Response.json({});
  };
  const busy = new Waterclock({ url: 'http://127.0.0.1:1', fetch, onUnavailable: 'refuse' });
  const limiter = new RateLimiterWaterclock({ client: busy, points: 3, duration: 60, blockDuration: 600 });
  await refusalOf(limiter.consume('key'));
  assert.deepEqual(requests.filter((url) => url.endsWith('/override')), []);
});

test('options that make no sense throw', () => {
  for (const bad of [{ points: 0 }, { points: 1.5 }, { duration: -1 }, { duration: NaN }]) {
    assert.throws(() => new RateLimiterWaterclock({ client, points: 1, duration: 1, ...bad }), RangeError);
  }
});

async function refusalOf(call: Promise<unknown>): Promise<RateLimiterRes> {
  const [result] = await Promise.allSettled([call]);
  assert.ok(result.status === 'rejected' && result.reason instanceof RateLimiterRes, 'it is refused');
  return result.reason;
}
