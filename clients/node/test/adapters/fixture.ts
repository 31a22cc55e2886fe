import { after } from 'node:test';
import type { Client } from '../../src/client.js';
import { startServer, type Server } from '../server.js';
import { connect } from '../transports.js';

const tokens = { ADMIN_TOKEN: 'adapters-admin', CHECK_TOKEN: 'adapters-check' };
Object.assign(process.env, tokens);

const AUTH = `[server]
auth = [{ token = "\${ADMIN_TOKEN}", roles = ["admin"] }, { token = "\${CHECK_TOKEN}", roles = ["check"] }]
`;

export interface Fixture {
  readonly server: Server;
  /** Over HTTP, as an administrator. */
  readonly client: Client;
  /** Over the Redis protocol, as an administrator. */
  readonly resp: Client;
  /** Over HTTP, with the role `check` only. */
  readonly checker: Client;
}

/** A server for one test file, with the policies of `toml`. */
export async function startFixture(toml = ''): Promise<Fixture> {
  const server = await startServer(`${AUTH}${toml}`);
  // Long enough for a machine that is busy with other tests.
  const deadlineMs = 30_000;
  const client = connect('http', server, { token: tokens.ADMIN_TOKEN, deadlineMs });
  const resp = connect('resp', server, { token: tokens.ADMIN_TOKEN, deadlineMs });
  const checker = connect('http', server, { token: tokens.CHECK_TOKEN, deadlineMs });
  after(async () => {
    await Promise.all([client.close(), resp.close(), checker.close()]);
    await server.stop();
  });
  return { server, client, resp, checker };
}

/** The client, with the calls of one verb counted. */
export function counting<V extends keyof Client>(client: Client, verb: V): { client: Client; calls: () => number } {
  let calls = 0;
  const counted = new Proxy(client, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...parameters: unknown[]): unknown => {
        if (name === verb) calls += 1;
        return Reflect.apply(value, target, parameters);
      };
    },
  });
  return { client: counted, calls: () => calls };
}
