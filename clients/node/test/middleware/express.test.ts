import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import express, { type Express } from 'express';
import { rateLimit } from '../../src/middleware/express.js';
import { expectNotCounted, expectPassed, expectRefused, expectUnavailable, get } from './expect.js';
import { brokenClient, closedClient, withLimits } from './limits.js';

async function serve(app: Express, use: (url: string) => Promise<void>): Promise<void> {
  const server: Server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.close();
  }
}

const key = (request: express.Request) => request.get('x-user')!;
const ok = (_request: express.Request, response: express.Response) => void response.send('ok');

test('Express: requests pass with header fields, then are refused', () =>
  withLimits(async (client) => {
    const app = express();
    app.use(rateLimit(client, { policy: 'two', key, skip: (request) => request.path === '/health' }));
    app.get(['/', '/health'], ok);
    await serve(app, async (url) => {
      await expectPassed(await get(url, 'alice'), 1);
      await expectPassed(await get(url, 'alice'), 0);
      await expectRefused(await get(url, 'alice'));
      await expectPassed(await get(url, 'bob'), 1);
      await expectNotCounted(await get(`${url}/health`, 'alice'));
    });
  }));

test('Express: cost, tier and factor come from the request', () =>
  withLimits(async (client) => {
    const app = express();
    const number = (request: express.Request, name: string) => Number(request.get(name) ?? 1);
    app.use(
      rateLimit(client, {
        policy: 'two',
        key,
        cost: async (request) => number(request, 'x-cost'),
        tier: (request) => request.get('x-tier'),
        factor: (request) => number(request, 'x-factor'),
      }),
    );
    app.get('/', (_request, response) => void response.json(response.locals['waterclock'].cost));
    await serve(app, async (url) => {
      await expectPassed(await get(url, 'alice', { 'x-cost': '2' }), 0);
      await expectPassed(await get(url, 'bob', { 'x-tier': 'pro' }), 3);
      await expectPassed(await get(url, 'carol', { 'x-factor': '0.25' }), 7);
      assert.equal(await (await get(url, 'dave', { 'x-cost': '2' })).text(), '2');
    });
  }));

test('Express: the application answers refusals itself', () =>
  withLimits(async (client) => {
    const app = express();
    const onRefused = (_decision: unknown, _request: unknown, response: express.Response) => {
      response.status(420).send('slow down');
    };
    app.get('/', rateLimit(client, { policy: 'one', key, onRefused }), ok);
    await serve(app, async (url) => {
      await expectPassed(await get(url, 'alice'), 0, 'one');
      const refused = await get(url, 'alice');
      assert.equal(refused.status, 420);
      assert.equal(await refused.text(), 'slow down');
      assert.ok(refused.headers.get('retry-after'));
    });
  }));

test('Express: a server that is away is 503 if the client fails closed, else an error of the application', async () => {
  const app = express();
  app.get('/closed', rateLimit(await closedClient(), { policy: 'one', key }), ok);
  app.get('/broken', rateLimit(await brokenClient(), { policy: 'one', key }), ok);
  app.use(((error, _request, response, _next) => {
    response.status(500).send(error.kind);
  }) as express.ErrorRequestHandler);
  await serve(app, async (url) => {
    await expectUnavailable(await get(`${url}/closed`, 'alice'));
    const broken = await get(`${url}/broken`, 'alice');
    assert.equal(broken.status, 500);
    assert.equal(await broken.text(), 'unavailable');
  });
});

test('Express: a mistake in the rule is 500, not what the rate limiter answered', () =>
  withLimits(async (client) => {
    const app = express();
    app.set('env', 'test');
    app.get('/policy', rateLimit(client, { policy: 'unknown', key }), ok);
    app.get('/key', rateLimit(client, { policy: 'one', key: () => undefined as unknown as string }), ok);
    await serve(app, async (url) => {
      assert.equal((await get(`${url}/policy`, 'alice')).status, 500);
      assert.equal((await get(`${url}/key`, 'alice')).status, 500);
    });
  }));
