import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { createAdaptorServer } from '@hono/node-server';
import { Hono, type Context } from 'hono';
import { rateLimit } from '../../src/middleware/hono.js';
import { expectNotCounted, expectPassed, expectRefused, expectUnavailable, get } from './expect.js';
import { brokenClient, closedClient, withLimits } from './limits.js';

async function serve(app: Hono, use: (url: string) => Promise<void>): Promise<void> {
  const server = createAdaptorServer({ fetch: app.fetch });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.close();
  }
}

const key = (context: Context) => context.req.header('x-user')!;

test('Hono: requests pass with header fields, then are refused', () =>
  withLimits(async (client) => {
    const app = new Hono();
    app.use(rateLimit(client, { policy: 'two', key, skip: (context) => context.req.path === '/health' }));
    app.get('/', (context) => context.text(context.get('waterclock')!.policy));
    // Made without the context.
    app.get('/plain', () => new Response('ok'));
    app.get('/health', (context) => context.text('ok'));
    await serve(app, async (url) => {
      await expectPassed(await get(url, 'alice'), 1);
      await expectPassed(await get(`${url}/plain`, 'alice'), 0);
      await expectRefused(await get(url, 'alice'));
      await expectPassed(await get(url, 'bob'), 1);
      await expectNotCounted(await get(`${url}/health`, 'alice'));
    });
  }));

test('Hono: an error of the handler has the header fields, too', () =>
  withLimits(async (client) => {
    const app = new Hono();
    app.use(rateLimit(client, { policy: 'one', key }));
    app.get('/', () => {
      throw new Error('of the handler');
    });
    app.onError((_error, context) => context.text('failed', 500));
    await serve(app, async (url) => {
      const failed = await get(url, 'alice');
      assert.equal(failed.status, 500);
      assert.match(failed.headers.get('ratelimit') ?? '', /r=0/);
    });
  }));

test('Hono: the application answers refusals itself', () =>
  withLimits(async (client) => {
    const app = new Hono();
    const onRefused = (_decision: unknown, context: Context) => context.text('slow down', 418);
    app.get('/', rateLimit(client, { policy: 'one', key, onRefused }), (context) => context.text('ok'));
    await serve(app, async (url) => {
      await expectPassed(await get(url, 'alice'), 0, 'one');
      const refused = await get(url, 'alice');
      assert.equal(refused.status, 418);
      assert.equal(await refused.text(), 'slow down');
      assert.ok(refused.headers.get('retry-after'));
    });
  }));

test('Hono: a server that is away is 503 if the client fails closed, else an error', async () => {
  const app = new Hono();
  app.get('/closed', rateLimit(await closedClient(), { policy: 'one', key }), (context) => context.text('ok'));
  app.get('/broken', rateLimit(await brokenClient(), { policy: 'one', key }), (context) => context.text('ok'));
  app.onError((error, context) => context.text((error as Error & { kind: string }).kind, 500));
  await serve(app, async (url) => {
    await expectUnavailable(await get(`${url}/closed`, 'alice'));
    assert.equal(await (await get(`${url}/broken`, 'alice')).text(), 'unavailable');
  });
});
