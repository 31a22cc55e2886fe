import type { Client } from '../../src/client.js';
import { Waterclock } from '../../src/index.js';
import { startServer } from '../server.js';
import { unusedPort } from '../impostor.js';

const CONFIGURATION = `
[policies.two]
limits = [{ name = "two", algorithm = "gcra", limit = 2, per = "1h" }]
tiers = { pro = { factor = 0.5 } }
headers = "ietf"

[policies.one]
limits = [{ name = "one", algorithm = "gcra", limit = 1, per = "1h" }]
headers = "ietf"
`;

/** Runs a test with a client of a fresh server that has the policies `two` and `one`. */
export async function withLimits(use: (client: Client) => Promise<void>): Promise<void> {
  const server = await startServer(CONFIGURATION);
  const client = new Waterclock({ url: server.http, deadlineMs: 30_000 });
  try {
    await use(client);
  } finally {
    await client.close();
    await server.stop();
  }
}

/** A client that refuses because there is no server. */
export async function closedClient(): Promise<Client> {
  return new Waterclock({ url: `http://127.0.0.1:${await unusedPort()}`, onUnavailable: 'refuse' });
}

/** A client that throws because there is no server. */
export async function brokenClient(): Promise<Client> {
  return new Waterclock({ url: `http://127.0.0.1:${await unusedPort()}` });
}
