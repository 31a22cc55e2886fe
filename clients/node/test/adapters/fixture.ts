import { after } from 'node:test';
import type { Client } from '../../src/client.js';
import { startServer, type Server } from '../server.js';
import { connect } from '../transports.js';

const TOKEN = 'adapters-admin';
process.env['ADAPTERS_TOKEN'] = TOKEN;

export interface Fixture {
  readonly server: Server;
  /** Over HTTP, as an administrator. */
  readonly client: Client;
  /** Over the Redis protocol, as an administrator. */
  readonly resp: Client;
}

/** A server for one test file, with an administrator's token and the policies of `toml`. */
export async function startFixture(toml = ''): Promise<Fixture> {
  const auth = '[server]\nauth = [{ token = "${ADAPTERS_TOKEN}", roles = ["admin"] }]\n';
  const server = await startServer(`${auth}${toml}`);
  // Long enough for a machine that is busy with other tests.
  const options = { token: TOKEN, deadlineMs: 30_000 };
  const client = connect('http', server, options);
  const resp = connect('resp', server, options);
  after(async () => {
    await Promise.all([client.close(), resp.close()]);
    await server.stop();
  });
  return { server, client, resp };
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
