import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';

/** A loopback port on which nothing listens. */
export async function closedPort(): Promise<number> {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  listener.close();
  await once(listener, 'close');
  return port;
}
