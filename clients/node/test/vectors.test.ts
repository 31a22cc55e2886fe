import { describe, test } from 'node:test';
import { startServer } from './server.js';
import { connect, transports } from './transports.js';
import { runCase } from './vectors/run.js';
import { configuration, table } from './vectors/table.js';

for (const transport of transports) {
  describe(`vectors over ${transport}`, () => {
    for (const each of table.cases) {
      if (each.transports && !each.transports.includes(transport)) continue;
      test(each.name, async () => {
        const server = await startServer(configuration);
        // Long enough for a machine that is busy with other tests.
        const options = { deadlineMs: 30_000 };
        const admin = connect(transport, server, { ...options, token: table.admin_token });
        const anonymous = connect(transport, server, options);
        try {
          await runCase(each, { admin, anonymous });
        } finally {
          await Promise.all([admin.close(), anonymous.close()]);
          await server.stop();
        }
      });
    }
  });
}
