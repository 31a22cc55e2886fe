import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Client } from '../src/client.js';
import { WaterclockError, type ErrorKind } from '../src/error.js';
import { Waterclock } from '../src/index.js';
import { startImpostor, unusedPort } from './impostor.js';
import { connectToPort, transports } from './transports.js';

const is = (kind: ErrorKind) => (error: unknown) => error instanceof WaterclockError && error.kind === kind;

/** What every verb that decides says, in the order of `check`, `checkAll`, `peek`, `wait`, `reserve`. */
async function everyDecision(client: Client) {
  const [check, all, peek, wait, reservation] = await Promise.all([
    client.check('demo', 'alice', { cost: 3 }),
    client.checkAll([{ policy: 'demo', key: 'alice' }, { policy: 'llm', key: 'alice', cost: { tokens: 5 } }]),
    client.peek('demo', 'alice'),
    client.wait('demo', 'alice', { withinMs: 10 }),
    client.reserve('demo', 'alice', { cost: 2 }),
  ]);
  return { check, all, peek, wait, reservation };
}

const places = {
  'where nothing listens': async () => ({ port: await unusedPort(), stop: async () => {} }),
  'that never answers': () => startImpostor(() => {}),
};

for (const transport of transports) {
  for (const [place, start] of Object.entries(places)) {
    describe(`a server ${place}, over ${transport}`, () => {
      const withClient = async (onUnavailable: 'throw' | 'allow' | 'refuse', use: (client: Client) => Promise<void>) => {
        const { port, stop } = await start();
        const client = connectToPort(transport, port, { onUnavailable, deadlineMs: 100 });
        try {
          await use(client);
        } finally {
          await client.close();
          await stop();
        }
      };

      test('is an error by default', () =>
        withClient('throw', async (client) => {
          await assert.rejects(client.check('demo', 'alice'), is('unavailable'));
          await assert.rejects(client.checkAll([{ policy: 'demo', key: 'alice' }]), is('unavailable'));
          await assert.rejects(client.peek('demo', 'alice'), is('unavailable'));
          await assert.rejects(client.wait('demo', 'alice', { withinMs: 10 }), is('unavailable'));
          await assert.rejects(client.reserve('demo', 'alice'), is('unavailable'));
        }));

      test('allows if it fails open', () =>
        withClient('allow', async (client) => {
          const { check, all, peek, wait, reservation } = await everyDecision(client);
          for (const decision of [check, ...all.decisions, peek, wait, reservation.decision]) {
            assert.equal(decision.allowed, true);
            assert.equal(decision.source, 'unavailable');
            assert.deepEqual([decision.limit, decision.remaining, decision.retryAfterMs], [null, null, 0]);
          }
          assert.equal(check.granted, 3);
          assert.deepEqual(all.decisions[1]?.granted, { tokens: 5 });
          assert.equal(all.allowed, true);
          assert.equal(reservation.reserved, true);
          await reservation.commit(1);
        }));

      test('refuses if it fails closed', () =>
        withClient('refuse', async (client) => {
          const { check, all, peek, wait, reservation } = await everyDecision(client);
          for (const decision of [check, ...all.decisions, peek, wait, reservation.decision]) {
            assert.equal(decision.allowed, false);
            assert.equal(decision.source, 'unavailable');
            assert.deepEqual([decision.limit, decision.remaining, decision.retryAfterMs], [null, null, null]);
          }
          assert.equal(check.granted, 0);
          assert.deepEqual(all.decisions[1]?.granted, { tokens: 0 });
          assert.equal(all.allowed, false);
          assert.equal(reservation.reserved, false);
          await assert.rejects(reservation.commit(1), is('invalid'));
        }));

      test('is an error of every other verb, whatever the fail mode', () =>
        withClient('allow', async (client) => {
          await assert.rejects(client.refund('demo', 'alice'), is('unavailable'));
          await assert.rejects(client.reset('demo', 'alice'), is('unavailable'));
          await assert.rejects(client.report('demo', 'alice', { cost: 1 }), is('unavailable'));
          await assert.rejects(client.commit('id', 1), is('unavailable'));
          await assert.rejects(client.getPolicy('demo'), is('unavailable'));
        }));
    });
  }
}

test('the deadline is named, whatever `fetch` says when it is aborted', async () => {
  const fetch = (_url: unknown, init?: RequestInit) =>
    new Promise<Response>((_resolve, reject) => {
      init?.signal?.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError')));
    });
  const client = new Waterclock({ url: 'http://127.0.0.1:1', fetch, deadlineMs: 10 });
  await assert.rejects(client.check('demo', 'alice'), /did not answer within 10 ms/);
});

const problem = (status: string, body: object) => {
  const text = JSON.stringify(body);
  return `HTTP/1.1 ${status}\r\ncontent-type: application/problem+json\r\ncontent-length: ${text.length}\r\n\r\n${text}`;
};

/** Answers of a server, and whether a client that fails open allows after them. */
const answers = [
  { transport: 'http', answer: problem('503 Service Unavailable', { detail: 'overloaded' }), opens: true },
  { transport: 'http', answer: problem('429 Too Many Requests', { detail: 'too many unknown tokens' }), opens: true },
  { transport: 'http', answer: 'HTTP/1.1 307 Temporary Redirect\r\nlocation: /\r\ncontent-length: 0\r\n\r\n', opens: true },
  { transport: 'http', answer: 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello', opens: true },
  { transport: 'http', answer: problem('503 Service Unavailable', { detail: 'x', failure: 'timeout' }), opens: false },
  { transport: 'resp', answer: '-BUSY the server is overloaded\r\n', opens: true },
  { transport: 'resp', answer: 'HTTP/1.1 400 Bad Request\r\n\r\n', opens: true },
  { transport: 'resp', answer: '-UNAVAILABLE the store failed\r\n', opens: false },
] as const;

for (const { transport, answer, opens } of answers) {
  const name = JSON.stringify(answer.slice(0, 40));
  test(`over ${transport}, ${name} is unavailable and ${opens ? 'fails open' : 'stays a refusal'}`, async () => {
    const impostor = await startImpostor((socket) => socket.write(answer));
    const thrower = connectToPort(transport, impostor.port, { deadlineMs: 30_000 });
    const opener = connectToPort(transport, impostor.port, { deadlineMs: 30_000, onUnavailable: 'allow' });
    try {
      await assert.rejects(thrower.check('demo', 'alice'), is('unavailable'));
      const decision = await opener.check('demo', 'alice');
      assert.equal(decision.source, 'unavailable');
      assert.equal(decision.allowed, opens);
    } finally {
      await Promise.all([thrower.close(), opener.close()]);
      await impostor.stop();
    }
  });
}
