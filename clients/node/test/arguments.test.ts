import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client, Override, PolicyDefinition } from '../src/client.js';
import { WaterclockError } from '../src/error.js';
import { Waterclock } from '../src/index.js';
import { startImpostor } from './impostor.js';
import { connectToPort, transports } from './transports.js';

const isInvalid = (error: unknown) => error instanceof WaterclockError && error.kind === 'invalid';

/** What plain JavaScript can pass, and what would be charged to the wrong key or at the wrong cost. */
const mistakes: Record<string, (client: Client) => Promise<unknown>> = {
  'a key that is undefined': (client) => client.check('demo', undefined as unknown as string),
  'a key that is a number': (client) => client.peek('demo', 7 as unknown as string),
  'a key with half a surrogate pair': (client) => client.check('demo', '\ud800'),
  'a policy that is undefined': (client) => client.reserve(undefined as unknown as string, 'alice'),
  'a cost that is NaN': (client) => client.check('demo', 'alice', { cost: Number.NaN }),
  'a cost that is a fraction': (client) => client.report('demo', 'alice', { cost: 1.5 }),
  'a unit whose cost is NaN': (client) => client.refund('demo', 'alice', { cost: { tokens: Number.NaN } }),
  'a cost without units': (client) => client.check('demo', 'alice', { cost: {} }),
  'one of several costs without units': (client) => client.checkAll([{ policy: 'demo', key: 'a', cost: {} }]),
  'a commit without units': (client) => client.commit('id', {}),
  'a cost that is null': (client) => client.checkAll([{ policy: 'demo', key: 'a', cost: null as unknown as number }]),
  'a factor that is not finite': (client) => client.check('demo', 'alice', { factor: Number.POSITIVE_INFINITY }),
  'a tier that is null': (client) => client.check('demo', 'alice', { tier: null as unknown as string }),
  'an id that is a number': (client) => client.reserve('demo', 'alice', { id: 7 as unknown as string }),
  'a report of nothing': (client) => client.report('demo', 'alice', {} as { cost: number }),
  'an unknown outcome': (client) => client.report('demo', 'alice', { outcome: 'failed' as 'error' }),
  'an override that is undefined': (client) => client.setOverride('demo', 'alice', undefined as unknown as Override),
  'a policy that is text': (client) => client.putPolicy('demo', '5/m' as unknown as PolicyDefinition),
  'a negative time': (client) => client.wait('demo', 'alice', { withinMs: -1 }),
  'a deadline that is NaN': (client) => client.check('demo', 'alice', { deadlineMs: Number.NaN }),
};

for (const transport of transports) {
  test(`mistakes are not sent over ${transport}`, async () => {
    const impostor = await startImpostor(() => {});
    const client = connectToPort(transport, impostor.port, { onUnavailable: 'allow' });
    try {
      for (const [name, make] of Object.entries(mistakes)) await assert.rejects(() => make(client), isInvalid, name);
      assert.deepEqual(impostor.received, []);
    } finally {
      await client.close();
      await impostor.stop();
    }
  });

  test(`options that let nothing through are not accepted over ${transport}`, () => {
    assert.throws(() => connectToPort(transport, 1, { connections: 0 }), isInvalid);
    assert.throws(() => connectToPort(transport, 1, { waits: Number.NaN }), isInvalid);
    assert.throws(() => connectToPort(transport, 1, { maxOutstanding: -1 }), isInvalid);
    assert.throws(() => connectToPort(transport, 1, { deadlineMs: -1 }), isInvalid);
    assert.throws(() => connectToPort(transport, 1, { onUnavailable: 'open' as 'allow' }), isInvalid);
  });

  test(`tokens that cannot be sent are not accepted over ${transport}, nor shown`, () => {
    for (const token of ['secret\n', 'secret\u20ac', 1234 as unknown as string]) {
      const make = () => connectToPort(transport, 1, { token, onUnavailable: 'allow' });
      assert.throws(make, (error) => isInvalid(error) && !/secret|1234/.test((error as Error).message));
    }
  });

  test(`a client that is closed sends nothing over ${transport}`, async () => {
    const impostor = await startImpostor(() => {});
    const client = connectToPort(transport, impostor.port, {});
    await client.close();
    await assert.rejects(client.check('demo', 'alice'), /the client is closed/);
    await assert.rejects(client.wait('demo', 'alice', { withinMs: 10 }), /the client is closed/);
    assert.deepEqual(impostor.received, []);
    await impostor.stop();
  });
}

test('a key of dots is not resolved as part of a path', async () => {
  const client = new Waterclock({ url: 'http://127.0.0.1:1' });
  await assert.rejects(client.clearOverride('demo', '..'), isInvalid);
  await assert.rejects(client.clearOverride('..', 'alice'), isInvalid);
});

for (const wrong of ['', 'localhost', 'redis://127.0.0.1:6380', 'ftp://127.0.0.1', 'http://:token@127.0.0.1:8080']) {
  test(`"${wrong}" is no address of HTTP`, () => {
    assert.throws(() => new Waterclock({ url: wrong }), isInvalid);
  });
}
