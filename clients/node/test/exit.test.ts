import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { startServer } from './server.js';
import { transports } from './transports.js';
import { configuration, table } from './vectors/table.js';

const run = promisify(execFile);
const modules = { http: '../src/index.js', resp: '../src/resp/index.js' };

for (const transport of transports) {
  test(`idle connections over ${transport} do not keep a program alive`, async () => {
    const server = await startServer(configuration);
    const program = `
      const { Waterclock } = await import(${JSON.stringify(new URL(modules[transport], import.meta.url).href)});
      const client = new Waterclock({ url: '${server[transport]}', token: '${table.check_token}', deadlineMs: 30_000 });
      await client.check('burst', 'alice');
      console.log((await client.wait('burst', 'alice', { withinMs: 0 })).remaining);`;
    try {
      // The server closes idle connections after 60 s: the program must end before.
      const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program], { timeout: 45_000 });
      assert.equal(stdout.trim(), '3');
    } finally {
      await server.stop();
    }
  });
}
