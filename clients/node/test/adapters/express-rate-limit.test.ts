import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, describe, test } from 'node:test';
import express, { type ErrorRequestHandler, type Request } from 'express';
import { MemoryStore, rateLimit, type Options, type Store } from 'express-rate-limit';
import { WaterclockStore } from '../../src/adapters/express-rate-limit.js';
import { connectToPort } from '../transports.js';
import { startFixture } from './fixture.js';
import { unusedPort } from '../impostor.js';
import { Stopwatch } from './elapsed.js';

const { client, resp } = await startFixture(`
[policies.bucket]
limits = ["3/m"]
[policies.hits]
mode = "count-refusals"
limits = ["10/1m fixed-window"]
`);
const KEY = 'caller';

interface App {
  readonly url: string;
  /** What the middleware logged: errors of its validation. */
  readonly logged: unknown[];
  readonly limiter: ReturnType<typeof rateLimit>;
}

async function startApp(options: Partial<Options>): Promise<App> {
  const logged: unknown[] = [];
  const log = (error: unknown) => logged.push(error);
  const limiter = rateLimit({ keyGenerator: () => KEY, logger: { error: log, warn: log }, ...options });
  const app = express();
  app.use(limiter);
  app.get('/', (request, response) => void response.status(Number(request.query['status'] ?? 200)).send('hello'));
  const onError: ErrorRequestHandler = (_error, _request, response, _next) =>
    void response.status(500).send('an error');
  app.use(onError);
  const server: Server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, logged, limiter };
}

async function get(app: App, query = ''): Promise<{ status: number; headers: Record<string, string> }> {
  const response = await fetch(app.url + query);
  await response.text();
  const headers = [...response.headers].filter(([name]) => name.includes('ratelimit') || name === 'retry-after');
  return { status: response.status, headers: Object.fromEntries(headers) };
}

for (const [transport, admin] of Object.entries({ http: client, resp })) {
  describe(`express-rate-limit over ${transport}`, () => {
    for (const standardHeaders of ['draft-6', 'draft-7', 'draft-8'] as const) {
      test(`the same answers and headers as its memory store, ${standardHeaders}`, async () => {
        const options = { windowMs: 60_000, limit: 3, standardHeaders, legacyHeaders: true };
        const ours = await startApp({
          ...options,
          store: new WaterclockStore({ client: admin, prefix: `${transport}:${standardHeaders}:` }),
        });
        const theirs = await startApp({ ...options, store: new MemoryStore() });
        const watch = new Stopwatch();
        for (let call = 1; call <= 5; call += 1) {
          const answer = await get(ours);
          const expected = await get(theirs);
          assert.equal(answer.status, expected.status, `call ${call}`);
          assertSameHeaders(answer.headers, expected.headers, watch);
        }
        assert.deepEqual(ours.logged, []);
      });
    }

    test('failed requests are given back', async () => {
      const options = { windowMs: 60_000, limit: 2, skipFailedRequests: true };
      const store = new WaterclockStore({ client: admin, prefix: `${transport}:skip:` });
      const app = await startApp({ ...options, store });
      const key = `${transport}:skip:${KEY}`;
      for (let call = 0; call < 4; call += 1) {
        assert.equal((await get(app, '?status=500')).status, 500);
        await until(async () => (await admin.peek('express-rate-limit/2:60000', key)).remaining === 2);
      }
      assert.deepEqual([(await get(app)).status, (await get(app)).status, (await get(app)).status], [200, 200, 429]);
      assert.deepEqual(app.logged, []);
    });

    test('getKey and resetKey', async () => {
      const app = await startApp({
        windowMs: 60_000,
        limit: 2,
        store: new WaterclockStore({ client: admin, prefix: `${transport}:keys:` }),
      });
      assert.equal(await app.limiter.getKey(KEY), undefined);
      const counts = [];
      for (let call = 0; call < 4; call += 1) {
        await get(app);
        counts.push((await app.limiter.getKey(KEY))?.totalHits);
      }
      assert.deepEqual(counts, [1, 2, 3, 4]);
      app.limiter.resetKey(KEY);
      await until(async () => (await app.limiter.getKey(KEY)) === undefined);
      assert.equal((await get(app)).status, 200);
    });
  });
}

test('a policy of the server decides', async () => {
  const app = await startApp({
    windowMs: 60_000,
    limit: 3,
    standardHeaders: 'draft-7',
    store: new WaterclockStore({ client, policy: 'bucket' }),
  });
  const statuses = [];
  for (let call = 0; call < 4; call += 1) statuses.push((await get(app)).status);
  assert.deepEqual(statuses, [200, 200, 200, 429]);
  const refused = await get(app);
  assert.ok(Number(refused.headers['retry-after']) <= 20, 'a bucket is not empty for the whole window');
  assert.deepEqual(app.logged, []);
});

test('a limit that depends on the request', async () => {
  const limit = (request: Request) => (request.query['plan'] === 'pro' ? 4 : 2);
  const app = await startApp({ windowMs: 60_000, limit, store: new WaterclockStore({ client, policy: 'hits' }) });
  const statuses = [];
  for (const plan of ['free', 'free', 'free', 'pro', 'pro']) statuses.push((await get(app, `?plan=${plan}`)).status);
  assert.deepEqual(statuses, [200, 200, 429, 200, 429]);
  assert.throws(() => new WaterclockStore({ client }).init({ windowMs: 1000, limit }), /name a policy/);
});

test('a limit of 0 refuses everything', async () => {
  const app = await startApp({ windowMs: 60_000, limit: 0, store: new WaterclockStore({ client }) });
  assert.equal((await get(app)).status, 429);
});

test('fail modes', async () => {
  const port = await unusedPort();
  const statusOf = async (onUnavailable: 'allow' | 'refuse' | 'throw', more: Partial<Options> = {}) => {
    const down = connectToPort('http', port, { onUnavailable });
    const store = new WaterclockStore({ client: down, policy: 'hits', warn: () => {} });
    const app = await startApp({ windowMs: 60_000, limit: 3, standardHeaders: 'draft-7', store, ...more });
    return (await get(app)).status;
  };
  assert.equal(await statusOf('allow'), 200);
  assert.equal(await statusOf('refuse'), 429);
  for (const limit of [() => 1, () => 1_000_000]) {
    assert.equal(await statusOf('allow', { limit }), 200);
    assert.equal(await statusOf('refuse', { limit }), 429);
  }
  assert.equal(await statusOf('throw'), 500);
  assert.equal(await statusOf('throw', { passOnStoreError: true }), 200);
});

test('the store has the package’s type', () => {
  const store: Store = new WaterclockStore({ client });
  assert.equal(store.localKeys, false);
});

/** Numbers that are seconds or dates may differ by the time that has passed; everything else is the same. */
function assertSameHeaders(ours: Record<string, string>, theirs: Record<string, string>, watch: Stopwatch): void {
  assert.deepEqual(Object.keys(ours).sort(), Object.keys(theirs).sort());
  for (const [name, value] of Object.entries(theirs)) {
    const [ourTime, ourRest] = splitTime(name, ours[name]!);
    const [theirTime, theirRest] = splitTime(name, value);
    assert.equal(ourRest, theirRest, name);
    // Both are rounded to seconds.
    if (Math.abs(ourTime - theirTime) > 1) watch.assertSameTime(ourTime * 1000, theirTime * 1000, name);
  }
}

function splitTime(name: string, value: string): [time: number, rest: string] {
  const time = /(?<=reset=|t=)\d+/.exec(value) ?? (/reset|retry-after/.test(name) ? /\d+/.exec(value) : null);
  return time === null ? [0, value] : [Number(time[0]), value.replace(time[0], 'TIME')];
}

/** The middleware does not say when it has given back or reset. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds()));
}
