import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Client } from '../src/client.js';
import { WaterclockError } from '../src/error.js';
import { startServer, type Server } from './server.js';
import { connect, transports } from './transports.js';
import { configuration, table } from './vectors/table.js';

for (const transport of transports) {
  describe(`reservations over ${transport}`, () => {
    const withClient = async (use: (client: Client, server: Server) => Promise<void>) => {
      const server = await startServer(configuration);
      const client = connect(transport, server, { token: table.check_token, deadlineMs: 30_000 });
      try {
        await use(client, server);
      } finally {
        await client.close();
        await server.stop();
      }
    };
    const remaining = async (client: Client) => (await client.peek('burst', 'alice')).remaining;

    test('work that commits is charged what it commits', () =>
      withClient(async (client) => {
        const done = await client.reserved('burst', 'alice', { cost: 4 }, async (reservation) => {
          assert.equal(await remaining(client), 1);
          await reservation.commit(2);
          return 'value';
        });
        assert.ok(done.reserved && done.value === 'value');
        assert.equal(await remaining(client), 3);
      }));

    test('work that does not commit is charged the estimate', () =>
      withClient(async (client) => {
        await client.reserved('burst', 'alice', { cost: 4 }, () => 'value');
        assert.equal(await remaining(client), 1);
      }));

    test('work that throws is charged nothing', () =>
      withClient(async (client) => {
        const failure = new Error('of the work');
        const work = () => Promise.reject(failure);
        await assert.rejects(client.reserved('burst', 'alice', { cost: 4 }, work), failure);
        assert.equal(await remaining(client), 5);
      }));

    test('work that throws after it has committed is charged what it committed', () =>
      withClient(async (client) => {
        const failure = new Error('of the work');
        const done = client.reserved('burst', 'alice', { cost: 4 }, async (reservation) => {
          await reservation.commit(3);
          throw failure;
        });
        await assert.rejects(done, failure);
        assert.equal(await remaining(client), 2);
      }));

    test('work that commits no unit is an error and charged nothing', () =>
      withClient(async (client) => {
        const done = client.reserved('burst', 'alice', { cost: 4 }, (reservation) => reservation.commit({}));
        await assert.rejects(done, (error) => (error as WaterclockError).kind === 'invalid');
        assert.equal(await remaining(client), 5);
      }));

    test('work is not done if units cannot be reserved', () =>
      withClient(async (client) => {
        const done = await client.reserved('burst', 'alice', { cost: 6 }, () => assert.fail('the work was done'));
        assert.equal(done.reserved, false);
        assert.deepEqual(done.decision.refusedBy, ['burst']);
      }));

    test('a reservation that goes out of scope stays charged at the estimate', () =>
      withClient(async (client) => {
        const reservation = await client.reserve('burst', 'alice', { cost: 4, onExpiry: 'release' });
        assert.equal(reservation.expiresInMs, 60_000);
        await reservation[Symbol.asyncDispose]();
        await assert.rejects(client.commit('unknown', 1), (error) => (error as WaterclockError).kind === 'invalid');
        // A settled reservation gives the same answer to every later cancel: nothing is given back.
        await client.cancel(reservation.id!);
        assert.equal(await remaining(client), 1);
      }));

    test('a reservation that was settled is left alone when it goes out of scope', () =>
      withClient(async (client) => {
        const reservation = await client.reserve('burst', 'alice', { cost: 4 });
        await reservation.cancel();
        await reservation[Symbol.asyncDispose]();
        assert.equal(await remaining(client), 5);
      }));

    test('the result of the work is not lost with the server', () =>
      withClient(async (client, server) => {
        const done = await client.reserved('burst', 'alice', { cost: 4 }, async () => {
          await server.stop();
          return 'value';
        });
        assert.ok(done.reserved && done.value === 'value');
      }));

    test('a partial grant reserves what it grants', () =>
      withClient(async (client) => {
        const reservation = await client.reserve('partial', 'alice', { cost: 9 });
        assert.equal(reservation.decision.allowed, false);
        assert.equal(reservation.decision.granted, 5);
        assert.equal(reservation.reserved, true);
        await reservation.commit();
        assert.equal((await client.peek('partial', 'alice')).remaining, 0);
      }));
  });
}
