import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WaterclockError } from '../src/error.js';
import { startImpostor } from './impostor.js';
import { connectToPort, transports } from './transports.js';

for (const transport of transports) {
  test(`a check is sent once over ${transport}, even if the connection breaks before the reply`, async () => {
    const isWhole = (text: string) => text.endsWith(transport === 'http' ? '}' : 'JSON\r\n');
    const impostor = await startImpostor((socket, received) => {
      if (isWhole(received)) socket.destroy();
    });
    const client = connectToPort(transport, impostor.port, { deadlineMs: 30_000 });
    try {
      await assert.rejects(client.check('demo', 'alice'), (error) => {
        return error instanceof WaterclockError && error.kind === 'unavailable';
      });
      const requests = impostor.received.filter(isWhole);
      assert.equal(requests.length, 1, JSON.stringify(impostor.received));
    } finally {
      await client.close();
      await impostor.stop();
    }
  });
}
