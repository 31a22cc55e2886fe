import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WaterclockError } from '../src/error.js';
import { startImpostor } from './impostor.js';
import { startServer } from './server.js';
import { connect, connectToPort, transports } from './transports.js';
import { configuration, table } from './vectors/table.js';

for (const transport of transports) {
  test(`1,000 parallel checks over ${transport} admit the capacity and no more`, async () => {
    const server = await startServer(configuration);
    const client = connect(transport, server, { token: table.check_token, deadlineMs: 60_000 });
    try {
      const checks = Array.from({ length: 1_000 }, () => client.check('burst', 'everyone'));
      const decisions = await Promise.all(checks);
      assert.equal(decisions.filter((decision) => decision.allowed).length, 5);
    } finally {
      await client.close();
      await server.stop();
    }
  });

  test(`more calls than may be outstanding fail at once over ${transport}`, async () => {
    const impostor = await startImpostor(() => {});
    const client = connectToPort(transport, impostor.port, { maxOutstanding: 3, deadlineMs: 60_000 });
    const held = Array.from({ length: 3 }, () => client.check('demo', 'alice'));
    const failures = Promise.allSettled(held);
    try {
      await assert.rejects(client.check('demo', 'alice'), /3 calls are outstanding/);
    } finally {
      await client.close();
      await impostor.stop();
    }
    for (const failure of await failures) {
      assert.equal(failure.status, 'rejected');
      assert.ok(failure.reason instanceof WaterclockError && failure.reason.kind === 'unavailable');
    }
  });

  test(`callers that wait do not hold up checks over ${transport}`, async () => {
    const server = await startServer(configuration);
    const client = connect(transport, server, { token: table.check_token, connections: 1, waits: 2, deadlineMs: 60_000 });
    try {
      await client.check('quick', 'line');
      const waits = Array.from({ length: 6 }, () => client.wait('quick', 'line', { withinMs: 30_000 }));
      assert.equal((await client.check('burst', 'other')).allowed, true);
      for (const decision of await Promise.all(waits)) assert.equal(decision.allowed, true);
    } finally {
      await client.close();
      await server.stop();
    }
  });
}
