import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WaterclockError } from '../../src/error.js';
import { Waterclock } from '../../src/resp/index.js';
import { startServer } from '../server.js';
import { configuration } from '../vectors/table.js';

test('a client without a token is told to give one', async () => {
  const server = await startServer(configuration);
  const client = new Waterclock({ url: server.resp, deadlineMs: 30_000 });
  try {
    await assert.rejects(client.check('burst', 'alice'), (error) => {
      assert.ok(error instanceof WaterclockError);
      assert.deepEqual([error.kind, error.code], ['unauthorized', 'NOAUTH']);
      assert.match(error.message, /give the client one as `token`$/);
      return true;
    });
  } finally {
    await client.close();
    await server.stop();
  }
});
