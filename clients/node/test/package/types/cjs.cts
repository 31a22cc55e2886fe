// Compiled, not run: each subpath has types for CommonJS, too.
import waterclock = require('waterclock');
import resp = require('waterclock/resp');
import express = require('waterclock/express');
import fastify = require('waterclock/fastify');
import hono = require('waterclock/hono');
import nest = require('waterclock/nest');
import expressRateLimit = require('waterclock/express-rate-limit');
import misskey = require('waterclock/misskey');
import rateLimiter = require('waterclock/rate-limiter');
import rateLimiterFlexible = require('waterclock/rate-limiter-flexible');
import rollingRateLimiter = require('waterclock/rolling-rate-limiter');
import sharkey = require('waterclock/sharkey');

const client: waterclock.Client = new waterclock.Waterclock({ url: 'http://127.0.0.1:8080' });
const other: resp.Client = new resp.Waterclock({ url: 'redis://127.0.0.1:6380' });

export const limits = [
  express.rateLimit(client, { policy: 'api', key: (request) => request.ip ?? '' }),
  fastify.rateLimit(other, { policy: 'api', key: (request) => request.ip }),
  hono.rateLimit(client, { policy: 'api', key: (context) => context.req.path }),
  new nest.WaterclockGuard(other, {}),
];
export const adapters = [expressRateLimit, misskey, rateLimiter, rateLimiterFlexible, rollingRateLimiter, sharkey];
