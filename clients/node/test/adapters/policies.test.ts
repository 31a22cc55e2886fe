import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { describe, test } from 'node:test';
import type { NumbersPolicy } from '../../src/adapters/policy/numbers.js';
import { policyName } from '../../src/adapters/policy/numbers.js';
import { Policies } from '../../src/adapters/policy/policies.js';
import { includesRates, ratesOf } from '../../src/adapters/policy/rate.js';
import { BoundedMap } from '../../src/adapters/bounded-map.js';
import { actorKey, boundedKey } from '../../src/adapters/key.js';
import { connectToPort } from '../transports.js';
import { counting, startFixture } from './fixture.js';
import { unusedPort } from '../impostor.js';

const { client, resp, checker } = await startFixture(`
[policies."file/2:1h"]
limits = ["3/h"]
[policies.own]
limits = ["3/h"]
`);

function numbers(name: string, limit = 2): NumbersPolicy {
  return {
    name,
    definition: { limits: [{ algorithm: 'fixed-window', limit, per: '1h' }] },
    rates: [{ units: limit, perMs: 3_600_000 }],
  };
}

/** Collects warnings. */
function warnings(): { warn: (message: string) => void; next: () => Promise<string>; all: string[] } {
  const emitter = new EventEmitter();
  const all: string[] = [];
  const warn = (message: string): void => {
    all.push(message);
    emitter.emit('warning');
  };
  return {
    warn,
    all,
    async next() {
      if (all.length === 0) await once(emitter, 'warning');
      return all[0]!;
    },
  };
}

for (const [transport, admin] of Object.entries({ http: client, resp })) {
  describe(`policies of numbers over ${transport}`, () => {
    test('concurrent first calls register once', async () => {
      const { client: counted, calls } = counting(admin, 'putPolicy');
      const policies = new Policies(counted);
      const policy = numbers(`${transport}/once`);
      const decisions = await Promise.all(
        Array.from({ length: 20 }, () => policies.under(undefined, policy, (name) => counted.check(name, 'k'))),
      );
      assert.equal(decisions.filter((decision) => decision.allowed).length, 2);
      assert.equal(calls(), 1);
    });

    test('a policy that the server lost is registered again', async () => {
      const policies = new Policies(admin);
      const policy = numbers(`${transport}/lost`);
      const check = () => policies.under(undefined, policy, (name) => admin.check(name, 'k'));
      await check();
      await admin.deletePolicy(policy.name);
      assert.equal((await check()).allowed, true);
    });

    test('a policy of the file wins, and a difference is warned about once', async () => {
      const { warn, next, all } = warnings();
      const policies = new Policies(admin, warn);
      const check = () => policies.under(undefined, numbers('file/2:1h'), (name) => admin.check(name, transport));
      assert.equal((await check()).limit, 3);
      assert.match(await next(), /`file\/2:1h` admits 3 in 3600000 ms, the code says 2 in 3600000 ms/);
      await check();
      assert.equal(all.length, 1);
    });

    test('a policy by name is not registered, and a difference is warned about', async () => {
      const { client: counted, calls } = counting(admin, 'putPolicy');
      const { warn, next } = warnings();
      const decision = await new Policies(counted, warn).under('own', numbers('x'), (name) =>
        counted.check(name, transport),
      );
      assert.equal(decision.policy, 'own');
      assert.match(await next(), /`own` admits 3 in 3600000 ms, the code says 2 in 3600000 ms; the policy decides/);
      assert.equal(calls(), 0);
    });
  });
}

test('without a server, the client’s fail mode decides', async () => {
  const port = await unusedPort();
  for (const onUnavailable of ['allow', 'refuse'] as const) {
    const down = connectToPort('http', port, { onUnavailable });
    const decision = await new Policies(down).under(undefined, numbers('down'), (name) => down.check(name, 'k'));
    assert.deepEqual([decision.allowed, decision.source], [onUnavailable === 'allow', 'unavailable']);
  }
  const down = connectToPort('http', port, {});
  await assert.rejects(
    new Policies(down).under(undefined, numbers('down'), (name) => down.check(name, 'k')),
    { kind: 'unavailable' },
  );
});

test('without the role, the error says what to do', async () => {
  await assert.rejects(
    new Policies(checker).under(undefined, numbers('n'), (name) => checker.check(name, 'k')),
    { kind: 'unauthorized', message: /cannot register the policy `n`.*role admin, or name a policy/ },
  );
});

test('a token that may only check is enough for a policy by name', async () => {
  const { warn, next } = warnings();
  const decision = await new Policies(checker, warn).under('own', numbers('n'), (name) => checker.check(name, 'k'));
  assert.equal(decision.allowed, true);
  assert.match(await next(), /cannot compare policy `own` with the numbers in the code/);
});

test('rates of every algorithm are compared as units and time', async () => {
  const limits = ['10/s', '10/s fixed-window', '10/s sliding-window', '10/s rolling-window', '10/s quota'];
  const drips = { algorithm: 'leaky-bucket', capacity: 10, drip: 2, every: '200ms' };
  for (const limit of [...limits, drips]) {
    await client.putPolicy('rates', { limits: [limit] });
    const rates = ratesOf((await client.getPolicy('rates'))!);
    assert.deepEqual(rates, [{ units: 10, perMs: 1000 }], JSON.stringify(limit));
  }
  await client.putPolicy('rates', { limits: [{ algorithm: 'min-interval', every: '2s' }] });
  assert.deepEqual(ratesOf((await client.getPolicy('rates'))!), [{ units: 1, perMs: 2000 }]);
  assert.equal(includesRates([{ units: 10, perMs: 1005 }], [{ units: 10, perMs: 1000 }]), true);
  assert.equal(includesRates([{ units: 11, perMs: 1000 }], [{ units: 10, perMs: 1000 }]), false);
  assert.equal(includesRates([{ units: 10, perMs: 1020 }], [{ units: 10, perMs: 1000 }]), false);
});

test('names and keys fit the server’s bounds', async () => {
  assert.equal(policyName('sharkey', 'bucket:10:1000:1'), 'sharkey/bucket:10:1000:1');
  const long = policyName('rate-limiter', 'binary:' + '1000:3600000_'.repeat(10));
  assert.match(long, /^rate-limiter\/[0-9a-f]{32}$/);

  assert.equal(boundedKey('é'.repeat(512)), 'é'.repeat(512));
  assert.match(boundedKey('é'.repeat(512) + 'x'), /^sha256:[0-9a-f]{64}$/);
  assert.notEqual(actorKey('a/b', 'c'), actorKey('a', 'b/c'));
  assert.notEqual(actorKey('a%2Fb', 'c'), actorKey('a/b', 'c'));
});

test('a full map forgets what was set first', () => {
  const map = new BoundedMap<string, number>(2);
  map.set('a', 1);
  map.set('b', 2);
  map.set('a', 3);
  map.set('c', 4);
  assert.deepEqual([map.get('a'), map.get('b'), map.get('c')], [3, undefined, 4]);
});
