import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { unusedPort } from '../impostor.js';

/** A client of a `redis-server` of its own, for libraries that count there. */
export async function startRedis(): Promise<Redis> {
  const port = await unusedPort();
  const child = spawn(
    'redis-server',
    ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'],
    {
      stdio: 'ignore',
    },
  );
  await once(child, 'spawn').catch((cause: unknown) => {
    throw new Error('redis-server cannot be started; install Redis or Valkey, which this test compares with', {
      cause,
    });
  });
  const redis = new Redis({ port, host: '127.0.0.1', lazyConnect: true, retryStrategy: () => 20 });
  // While the server starts, connections fail and are tried again.
  redis.on('error', () => {});
  after(async () => {
    redis.disconnect();
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  });
  while (child.exitCode === null) {
    const reply = await redis.ping().catch(() => null);
    if (reply === 'PONG') return redis;
    await delay(20);
  }
  throw new Error(`redis-server exited with code ${child.exitCode}`);
}
