import assert from 'node:assert/strict';
import { test } from 'node:test';
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { rateLimit, waterclock } from '../../src/middleware/fastify.js';
import { expectNotCounted, expectPassed, expectRefused, expectUnavailable, get } from './expect.js';
import { brokenClient, closedClient, withLimits } from './limits.js';

async function serve(app: FastifyInstance, use: (url: string) => Promise<void>): Promise<void> {
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  try {
    await use(url);
  } finally {
    await app.close();
  }
}

const key = (request: FastifyRequest) => request.headers['x-user'] as string;
const ok = async () => 'ok';

test('Fastify: the plugin limits all routes, and routes change its options', () =>
  withLimits(async (client) => {
    const app = Fastify();
    await app.register(waterclock, { client, policy: 'two', key });
    app.get('/', ok);
    app.get('/login', { config: { waterclock: { policy: 'one' } } }, ok);
    app.get('/health', { config: { waterclock: false } }, ok);
    await serve(app, async (url) => {
      await expectPassed(await get(url, 'alice'), 1);
      await expectPassed(await get(url, 'alice'), 0);
      await expectRefused(await get(url, 'alice'));
      await expectPassed(await get(url, 'bob'), 1);
      await expectPassed(await get(`${url}/login`, 'alice'), 0, 'one');
      await expectRefused(await get(`${url}/login`, 'alice'));
      await expectNotCounted(await get(`${url}/health`, 'alice'));
    });
  }));

test('Fastify: the plugin of a scope leaves other routes alone', () =>
  withLimits(async (client) => {
    const app = Fastify();
    await app.register(async (scope) => {
      await scope.register(waterclock, { client, policy: 'one', key });
      scope.get('/inside', ok);
    });
    app.get('/outside', ok);
    await serve(app, async (url) => {
      await expectPassed(await get(`${url}/inside`, 'alice'), 0, 'one');
      await expectNotCounted(await get(`${url}/outside`, 'alice'));
    });
  }));

test('Fastify: a scope may have several policies', () =>
  withLimits(async (client) => {
    const app = Fastify();
    await app.register(waterclock, { client, policy: 'two', key });
    await app.register(waterclock, { client, policy: 'one', key });
    app.get('/', ok);
    await serve(app, async (url) => {
      await expectPassed(await get(url, 'alice'), 0, 'one');
      await expectRefused(await get(url, 'alice'));
    });
  }));

test('Fastify: a single route, without the plugin', () =>
  withLimits(async (client) => {
    const app = Fastify();
    app.get('/', { onRequest: rateLimit(client, { policy: 'one', key }) }, async (request) => request.waterclock?.policy);
    await serve(app, async (url) => {
      assert.equal(await (await get(url, 'alice')).text(), 'one');
      await expectRefused(await get(url, 'alice'));
    });
  }));

test('Fastify: before the handler, the cost may come from the body', () =>
  withLimits(async (client) => {
    const app = Fastify();
    const cost = (request: FastifyRequest) => (request.body as { cost: number }).cost;
    await app.register(waterclock, { client, policy: 'two', key, cost, hook: 'preHandler' });
    app.post('/', ok);
    await serve(app, async (url) => {
      const headers = { 'content-type': 'application/json', 'x-user': 'alice' };
      const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ cost: 2 }) });
      await expectPassed(response, 0);
    });
  }));

test('Fastify: the application answers refusals itself', () =>
  withLimits(async (client) => {
    const app = Fastify();
    await app.register(waterclock, {
      client,
      policy: 'one',
      key,
      onRefused: (decision, _request, reply) => reply.code(420).send({ wait: decision.retryAfterMs }),
    });
    app.get('/', ok);
    await serve(app, async (url) => {
      await expectPassed(await get(url, 'alice'), 0, 'one');
      const refused = await get(url, 'alice');
      assert.equal(refused.status, 420);
      assert.ok(((await refused.json()) as { wait: number }).wait > 0);
      assert.ok(refused.headers.get('retry-after'));
    });
  }));

test('Fastify: a server that is away is 503 if the client fails closed, else an error', async () => {
  const app = Fastify();
  app.get('/closed', { onRequest: rateLimit(await closedClient(), { policy: 'one', key }) }, ok);
  app.get('/broken', { onRequest: rateLimit(await brokenClient(), { policy: 'one', key }) }, ok);
  await serve(app, async (url) => {
    await expectUnavailable(await get(`${url}/closed`, 'alice'));
    assert.equal((await get(`${url}/broken`, 'alice')).status, 500);
  });
});
