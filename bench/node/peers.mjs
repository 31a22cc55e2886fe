// Limiters for Node.js behind one door: `node peers.mjs PEER PORT`.
//
// Reads one question per line of standard input and answers each with one line of JSON; the
// benchmark reads Redis's own counters in between. All callers share one connection.

import { createInterface } from "node:readline";
import { Redis } from "ioredis";
import { RateLimiterRedis } from "rate-limiter-flexible";
import Limiter from "ratelimiter";
import rateLimiter from "redis-rate-limiter";
import { RedisRateLimiter } from "rolling-rate-limiter";

const [peer, port] = process.argv.slice(2);

// Each makes, of a connection and a quota, a function that says whether a key passes. No prefix
// longer than it must be: what a key's name weighs is not the question.
const peers = {
  "rate-limiter-flexible": (redis, { limit, seconds }) => {
    const options = { storeClient: redis, points: limit, duration: seconds, keyPrefix: "" };
    const limiter = new RateLimiterRedis(options);
    return async (key) => {
      try {
        await limiter.consume(key);
        return true;
      } catch (refusal) {
        if (refusal instanceof Error) throw refusal;
        return false;
      }
    };
  },
  "rolling-rate-limiter": (redis, { limit, seconds }) => {
    const options = { namespace: "", interval: seconds * 1000, maxInInterval: limit };
    const limiter = new RedisRateLimiter({ client: redis, ...options });
    return async (key) => !(await limiter.limit(key));
  },
  ratelimiter: (redis, { limit, seconds }) => {
    const options = { db: redis, max: limit, duration: seconds * 1000 };
    return (id) =>
      new Promise((resolve, reject) => {
        const answer = (error, { remaining } = {}) => (error ? reject(error) : resolve(remaining > 0));
        new Limiter({ id, ...options }).get(answer);
      });
  },
  "redis-rate-limiter": (redis, { limit, seconds }) => {
    const check = rateLimiter.create({ redis, key: (key) => key, limit, window: seconds });
    return (key) =>
      new Promise((resolve, reject) => {
        check(key, (error, rate) => (error ? reject(error) : resolve(!rate.over)));
      });
  },
};

// Its automatic pipelining stays off as by default: it makes the fastest of these slower.
const redis = new Redis({ port: Number(port) });

const name = (n) => `user-${String(n).padStart(10, "0")}`;
const limiter = (quota) => peers[peer](redis, quota);

// `callers` ask until `next` has no more keys.
async function ask(check, callers, next) {
  const seen = { decisions: 0, admitted: 0, micros: [] };
  const call = async () => {
    for (let key = next(); key !== undefined; key = next()) {
      const start = performance.now();
      if (await check(key)) seen.admitted += 1;
      seen.micros.push((performance.now() - start) * 1000);
      seen.decisions += 1;
    }
  };
  const [start, before] = [performance.now(), process.cpuUsage()];
  await Promise.all(Array.from({ length: callers }, call));
  const [seconds, { user, system }] = [(performance.now() - start) / 1000, process.cpuUsage(before)];
  const { decisions, admitted, micros } = seen;
  const sorted = Float64Array.from(micros).sort();
  const at = (part) => sorted[Math.floor((sorted.length - 1) * part)];
  return { decisions, admitted, seconds, cpu: (user + system) / 1e6, p50: at(0.5), p99: at(0.99) };
}

let limit;
const questions = {
  open: ({ quota }) => {
    limit = limiter(quota);
    return {};
  },
  // Every key once.
  fill: ({ callers, keys }) => {
    let n = 0;
    return ask(limit, callers, () => (n < keys ? name(n++) : undefined));
  },
  // Keys at random for so long.
  drive: ({ callers, keys, millis }) => {
    const drawn = Array.from({ length: 1 << 16 }, () => name(Math.floor(Math.random() * keys)));
    const end = performance.now() + millis;
    let n = 0;
    return ask(limit, callers, () => (performance.now() < end ? drawn[n++ & 0xffff] : undefined));
  },
  // All callers at once on one key.
  crowd: ({ callers, quota }) => {
    let n = 0;
    return ask(limiter(quota), callers, () => (n++ < callers ? "crowd" : undefined));
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const question = JSON.parse(line);
  console.log(JSON.stringify(await questions[question.ask](question)));
}
redis.disconnect();
