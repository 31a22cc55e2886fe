import type { Client, ClientOptions } from '../src/client.js';
import { Waterclock as OverHttp } from '../src/index.js';
import { Waterclock as OverResp } from '../src/resp/index.js';
import type { Server } from './server.js';

/** Every way to reach a server. */
export const transports = ['http', 'resp'] as const;
export type TransportName = (typeof transports)[number];

interface Options extends ClientOptions {
  readonly token?: string;
  readonly connections?: number;
  readonly waits?: number;
  readonly maxOutstanding?: number;
}

export function connect(transport: TransportName, server: Server, options: Options): Client {
  return transport === 'http'
    ? new OverHttp({ url: server.http, ...options })
    : new OverResp({ url: server.resp, ...options });
}

/** A client of something else that listens on a loopback port, or of nothing. */
export function connectToPort(transport: TransportName, port: number, options: Options): Client {
  return transport === 'http'
    ? new OverHttp({ url: `http://127.0.0.1:${port}`, ...options })
    : new OverResp({ url: `redis://127.0.0.1:${port}`, ...options });
}
