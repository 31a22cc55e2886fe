import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';

/** Something that listens where a server should, and does what a test says with each connection. */
export interface Impostor {
  readonly port: number;
  /** Everything that was received, one text for each connection. */
  readonly received: readonly string[];
  stop(): Promise<void>;
}

export async function startImpostor(onData: (socket: Socket, received: string) => void): Promise<Impostor> {
  const received: string[] = [];
  const sockets = new Set<Socket>();
  const listener = createServer((socket) => {
    sockets.add(socket);
    const index = received.push('') - 1;
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      received[index] += chunk.toString();
      onData(socket, received[index]!);
    });
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const stop = async () => {
    for (const socket of sockets) socket.destroy();
    listener.close();
    await once(listener, 'close');
  };
  return { port: (listener.address() as AddressInfo).port, received, stop };
}

/** A port where nothing listens. */
export async function unusedPort(): Promise<number> {
  const impostor = await startImpostor(() => {});
  await impostor.stop();
  return impostor.port;
}
