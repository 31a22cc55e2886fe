import 'reflect-metadata';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Controller, Get, HttpException, Module, type ExecutionContext, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { Request } from 'express';
import type { Client } from '../../src/client.js';
import { RateLimit, WaterclockGuard, type RateLimitOptions } from '../../src/middleware/nest.js';
import { expectNotCounted, expectPassed, expectRefused, expectUnavailable, get } from './expect.js';
import { closedClient, withLimits } from './limits.js';

const key = (context: ExecutionContext) => context.switchToHttp().getRequest<Request>().get('x-user')!;

@Controller()
class Pages {
  @Get('/')
  home() {
    return 'ok';
  }

  @Get('/login')
  @RateLimit({ policy: 'one' })
  login() {
    return 'ok';
  }

  @Get('/health')
  @RateLimit(false)
  health() {
    return 'ok';
  }
}

@Controller('/assets')
@RateLimit(false)
class Assets {
  @Get('/')
  all() {
    return 'ok';
  }

  @Get('/large')
  @RateLimit({ policy: 'one' })
  large() {
    return 'ok';
  }
}

@Module({ controllers: [Pages, Assets] })
class App {}

/** Serves the application behind a guard; `logged` collects what Nest logs. */
async function serve(
  module: Type,
  client: Client,
  options: Partial<RateLimitOptions>,
  use: (url: string, logged: unknown[]) => Promise<void>,
): Promise<void> {
  const logged: unknown[] = [];
  const note = (message: unknown) => void logged.push(message);
  const app = await NestFactory.create(module, { logger: { log() {}, warn: note, error: note, fatal: note } });
  app.useGlobalGuards(new WaterclockGuard(client, options));
  try {
    await app.listen(0, '127.0.0.1');
    await use(await app.getUrl(), logged);
  } finally {
    await app.close();
  }
}

test('NestJS: a global guard, with decorators on handlers and controllers', () =>
  withLimits((client) =>
    serve(App, client, { policy: 'two', key }, async (url, logged) => {
      await expectPassed(await get(url, 'alice'), 1);
      await expectPassed(await get(url, 'alice'), 0);
      await expectRefused(await get(url, 'alice'));
      await expectPassed(await get(url, 'bob'), 1);
      await expectPassed(await get(`${url}/login`, 'alice'), 0, 'one');
      await expectRefused(await get(`${url}/login`, 'alice'));
      await expectNotCounted(await get(`${url}/health`, 'alice'));
      await expectNotCounted(await get(`${url}/assets`, 'alice'));
      await expectRefused(await get(`${url}/assets/large`, 'alice'));
      assert.deepEqual(logged, [], 'refusals are not logged as errors');
    }),
  ));

test('NestJS: a guard without options counts only what is decorated', () =>
  withLimits((client) =>
    serve(App, client, { key }, async (url) => {
      await expectNotCounted(await get(url, 'alice'));
      await expectPassed(await get(`${url}/login`, 'alice'), 0, 'one');
    }),
  ));

test('NestJS: the application chooses the exception', () =>
  withLimits((client) => {
    const onRefused = () => new HttpException('slow down', 420);
    return serve(App, client, { policy: 'one', key, onRefused }, async (url) => {
      await expectPassed(await get(url, 'alice'), 0, 'one');
      const refused = await get(url, 'alice');
      assert.equal(refused.status, 420);
      assert.ok(refused.headers.get('retry-after'));
    });
  }));

test('NestJS: a server that is away is 503 if the client fails closed', async () => {
  await serve(App, await closedClient(), { policy: 'one', key }, async (url) => {
    await expectUnavailable(await get(url, 'alice'));
  });
});
