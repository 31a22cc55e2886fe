// Compiled, not run: each subpath has types, and they say what the README says.
import type { Request } from 'express';
import { Waterclock, WaterclockError, type Client, type Cost, type Decision } from 'waterclock';
import { Waterclock as OverResp } from 'waterclock/resp';
import { rateLimit as expressLimit } from 'waterclock/express';
import fastifyPlugin, { rateLimit as fastifyLimit, waterclock } from 'waterclock/fastify';
import { rateLimit as honoLimit } from 'waterclock/hono';
import { RateLimit, WaterclockGuard } from 'waterclock/nest';
import type * as ExpressRateLimit from 'waterclock/express-rate-limit';
import type * as Misskey from 'waterclock/misskey';
import type * as RateLimiter from 'waterclock/rate-limiter';
import type * as RateLimiterFlexible from 'waterclock/rate-limiter-flexible';
import type * as RollingRateLimiter from 'waterclock/rolling-rate-limiter';
import type * as Sharkey from 'waterclock/sharkey';

export type Adapters = [
  typeof ExpressRateLimit,
  typeof Misskey,
  typeof RateLimiter,
  typeof RateLimiterFlexible,
  typeof RollingRateLimiter,
  typeof Sharkey,
];

const clients: Client[] = [
  new Waterclock({ url: 'http://127.0.0.1:8080' }),
  new OverResp({ url: 'redis://127.0.0.1:6380', tls: { ca: 'pem' } }),
];

for (const client of clients) {
  const decision: Decision = await client.check('api', 'alice', { cost: { tokens: 5 }, tier: 'pro', factor: '0.5' });
  const granted: Cost = decision.granted;
  const retry: number | null = decision.retryAfterMs;
  await using reservation = await client.reserve('api', 'alice', { cost: 2, onExpiry: 'release' });
  if (reservation.reserved) await reservation.commit(granted);
  const done = await client.reserved('api', 'alice', { cost: 1 }, () => 'value');
  const value: string = done.reserved ? done.value : String(retry);
  await client.report('api', value, { outcome: 'ok' });
  await client.report('api', value, { cost: 3 });
  // @ts-expect-error: either an outcome or a cost
  await client.report('api', value, { outcome: 'ok', cost: 3 });
  // @ts-expect-error: how long to wait is required
  await client.wait('api', value, {});
  // @ts-expect-error: a key is text
  await client.check('api', 7);

  expressLimit(client, { policy: 'api', key: (request: Request) => request.ip ?? '' });
  fastifyLimit(client, { policy: 'api', key: (request) => request.ip });
  honoLimit(client, { policy: 'api', key: (context) => context.req.path });
  new WaterclockGuard(client, { policy: 'api', key: (context) => context.getClass().name });
  RateLimit({ cost: 5 });
}

export const plugins = [fastifyPlugin, waterclock];
export const kind = (error: WaterclockError): 'invalid' | 'unauthorized' | 'unavailable' => error.kind;
