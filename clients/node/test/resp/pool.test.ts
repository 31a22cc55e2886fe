import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { WaterclockError } from '../../src/error.js';
import { readAddress } from '../../src/resp/address.js';
import { Pool } from '../../src/resp/pool.js';
import { startImpostor, type Impostor } from '../impostor.js';

const LONG_MS = 60_000;
const MAX_OUTSTANDING = 100;
const isUnavailable = (error: unknown) => error instanceof WaterclockError && error.kind === 'unavailable';

interface Options {
  readonly now?: () => number;
  readonly maxOutstanding?: number;
  readonly token?: string;
}

function poolFor(impostor: Impostor, options: Options): Pool {
  const address = { ...readAddress(`redis://127.0.0.1:${impostor.port}`), token: options.token };
  const { maxOutstanding = MAX_OUTSTANDING, now = () => performance.now() } = options;
  return new Pool({ address, tls: undefined, connections: 1, waits: 2, maxOutstanding, now });
}

/** Calls `answer` with every whole command, as its words. */
function commandsOf(answer: (words: readonly string[], socket: Socket) => void): (socket: Socket, all: string) => void {
  const seen = new WeakMap<Socket, number>();
  return (socket, all) => {
    // Test commands have no line ends in their words: *n, then $length and word for each.
    const lines = all.split('\r\n').slice(0, -1);
    let at = 0;
    let index = 0;
    while (at < lines.length) {
      const count = Number(lines[at]!.slice(1));
      const end = at + 1 + 2 * count;
      if (end > lines.length) return;
      const words = lines.slice(at + 1, end).filter((_, position) => position % 2 === 1);
      if (index >= (seen.get(socket) ?? 0)) {
        seen.set(socket, index + 1);
        answer(words, socket);
      }
      index += 1;
      at = end;
    }
  };
}

async function withPool(
  answer: (words: readonly string[], socket: Socket) => void,
  options: Options,
  use: (pool: Pool, impostor: Impostor) => Promise<void>,
): Promise<void> {
  const impostor = await startImpostor(commandsOf(answer));
  const pool = poolFor(impostor, options);
  try {
    await use(pool, impostor);
  } finally {
    pool.close();
    await impostor.stop();
  }
}

/** Gives a command up after it was sent. A busy machine may take it back before that: then once more. */
async function untilSent(pool: Pool, command: readonly string[], wasSent: () => boolean): Promise<void> {
  while (!wasSent()) await assert.rejects(pool.command(command, 20), isUnavailable);
}

test('calls of one turn are pipelined on one connection', () =>
  withPool(
    ([, word], socket) => socket.write(`+${word}\r\n`),
    {},
    async (pool, impostor) => {
      const words = Array.from({ length: 50 }, (_, index) => `word-${index}`);
      const replies = await Promise.all(words.map((word) => pool.command(['ECHO', word], LONG_MS)));
      assert.deepEqual(replies, words);
      assert.equal(impostor.received.length, 1);
    },
  ));

test('a reply that comes after its deadline is not given to the next call', () => {
  let slow = 0;
  const answer = ([name]: readonly string[], socket: Socket) => {
    if (name === 'SLOW') slow += 1;
    else socket.write(`${'+slow\r\n'.repeat(slow)}+quick\r\n`);
  };
  return withPool(answer, {}, async (pool, impostor) => {
    await untilSent(pool, ['SLOW'], () => slow > 0);
    assert.equal(await pool.command(['QUICK'], LONG_MS), 'quick');
    assert.equal(impostor.received.length, 1);
  });
});

test('a call that is given up before the connection is ready is never sent', () => {
  let authenticating: Socket | undefined;
  const answer = ([name]: readonly string[], socket: Socket) => {
    if (name === 'AUTH') authenticating = socket;
    else socket.write('+second\r\n');
  };
  return withPool(answer, { token: 'secret' }, async (pool, impostor) => {
    await assert.rejects(pool.command(['FIRST'], 50), isUnavailable);
    const second = pool.command(['SECOND'], LONG_MS);
    while (authenticating === undefined) await new Promise(setImmediate);
    authenticating.write('+OK\r\n');
    assert.equal(await second, 'second');
    assert.doesNotMatch(impostor.received.join(), /FIRST/);
  });
});

test('a wrong token fails every call that waits for the connection', () =>
  withPool(
    (_words, socket) => socket.write('-WRONGPASS the token is not known\r\n'),
    { token: 'wrong' },
    async (pool) => {
      const calls = [pool.command(['A'], LONG_MS), pool.command(['B'], LONG_MS)];
      for (const call of calls) {
        await assert.rejects(call, (error) => error instanceof WaterclockError && error.kind === 'unauthorized');
      }
    },
  ));

test('a connection that the server closed is replaced by the next call', () =>
  withPool(
    ([word], socket) => socket.end(`+${word}\r\n`),
    {},
    async (pool, impostor) => {
      assert.equal(await pool.command(['FIRST'], LONG_MS), 'FIRST');
      // The end of the first connection may not have been noticed yet: then the call fails, and is not repeated.
      const second = await pool.command(['SECOND'], LONG_MS).catch(() => pool.command(['SECOND'], LONG_MS));
      assert.equal(second, 'SECOND');
      assert.equal(impostor.received.length, 2);
    },
  ));

test('a connection that was idle for 50 s is not used again', () => {
  let now = 0;
  return withPool(
    ([word], socket) => socket.write(`+${word}\r\n`),
    { now: () => now },
    async (pool, impostor) => {
      await pool.command(['A'], LONG_MS);
      now = 49_999;
      await pool.command(['B'], LONG_MS);
      assert.equal(impostor.received.length, 1);
      now += 50_000;
      await pool.command(['C'], LONG_MS);
      assert.equal(impostor.received.length, 2);
    },
  );
});

test('a connection that owes a reply is replaced after 5 s of silence', () => {
  let now = 0;
  let lost = 0;
  const answer = ([word]: readonly string[], socket: Socket) => {
    if (word === 'LOST') lost += 1;
    else socket.write(`+${word}\r\n`);
  };
  return withPool(answer, { now: () => now }, async (pool, impostor) => {
    await untilSent(pool, ['LOST'], () => lost > 0);
    now = 5_000;
    assert.equal(await pool.command(['NEXT'], LONG_MS), 'NEXT');
    assert.equal(impostor.received.length, 2);
  });
});

test('calls that were given up do not fill a pool for ever', () => {
  let now = 0;
  const answer = ([word]: readonly string[], socket: Socket) => {
    if (word !== 'LOST') socket.write(`+${word}\r\n`);
  };
  return withPool(answer, { now: () => now }, async (pool) => {
    await pool.command(['CONNECT'], LONG_MS);
    const lost = Array.from({ length: MAX_OUTSTANDING }, () => pool.command(['LOST'], 500));
    for (const each of await Promise.allSettled(lost)) assert.equal(each.status, 'rejected');
    await assert.rejects(pool.command(['NEXT'], LONG_MS), /calls are outstanding/);
    now = 5_000;
    assert.equal(await pool.command(['NEXT'], LONG_MS), 'NEXT');
  });
});

test('a connection that cannot be opened is opened again after 100 ms, not for every call', () => {
  let now = 0;
  const breakOff = (_words: readonly string[], socket: Socket) => void socket.destroy();
  return withPool(breakOff, { now: () => now }, async (pool, impostor) => {
    await assert.rejects(pool.command(['A'], LONG_MS), isUnavailable);
    now = 99;
    await assert.rejects(pool.command(['B'], LONG_MS), isUnavailable);
    assert.equal(impostor.received.length, 1);
    now = 100;
    await assert.rejects(pool.command(['C'], LONG_MS), isUnavailable);
    assert.equal(impostor.received.length, 2);
  });
});

test('150,000 calls of one turn are answered', async () => {
  const command = '*1\r\n$1\r\nA\r\n';
  let answered = 0;
  const answer = (socket: Socket, received: string) => {
    const whole = Math.floor(received.length / command.length);
    socket.write('+OK\r\n'.repeat(whole - answered));
    answered = whole;
  };
  const impostor = await startImpostor(answer);
  // The clock stands still: a busy machine may take seconds to make the calls.
  const pool = poolFor(impostor, { maxOutstanding: 150_000, now: () => 0 });
  try {
    const replies = await Promise.all(Array.from({ length: 150_000 }, () => pool.command(['A'], LONG_MS)));
    assert.ok(replies.every((reply) => reply === 'OK'));
  } finally {
    pool.close();
    await impostor.stop();
  }
});

test('a wait has a connection of its own, which is used again', () => {
  const answer = ([word]: readonly string[], socket: Socket) => socket.write(`+${word}\r\n`);
  return withPool(answer, {}, async (pool, impostor) => {
    assert.equal(await pool.command(['A'], LONG_MS), 'A');
    assert.equal(await pool.wait(() => ['W1'], LONG_MS), 'W1');
    assert.equal(await pool.wait(() => ['W2'], LONG_MS), 'W2');
    assert.equal(impostor.received.length, 2);
  });
});

test('a wait that is given up closes its connection, so that the server drops it from its line', async () => {
  let closed: Promise<void> | undefined;
  const answer = (_words: readonly string[], socket: Socket) => {
    closed = new Promise((resolve) => socket.once('close', () => resolve()));
  };
  // With a token, the wait is given up while the connection is authenticated; without, while it waits.
  for (const options of [{}, { token: 'secret' }]) {
    await withPool(answer, options, async (pool) => {
      await assert.rejects(pool.wait(() => ['W'], 200), isUnavailable);
      await closed;
    });
  }
});
