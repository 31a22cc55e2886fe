import { WaterclockError } from '../error.js';

/** Where a server listens for the Redis protocol. */
export interface Address {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  readonly token: string | undefined;
  /** The address without its token, for messages. */
  readonly shown: string;
}

const DEFAULT_PORT = 6380;

/** Reads `redis://127.0.0.1:6380`, `redis://:token@host` or `rediss://…`. */
export function readAddress(text: string): Address {
  let url: URL;
  let token: string | undefined;
  try {
    url = new URL(text);
    token = url.password === '' ? undefined : decodeURIComponent(url.password);
  } catch (cause) {
    throw invalid('`url` is no URL', cause);
  }
  if (url.protocol === 'http:' || url.protocol === 'https:') {
    throw new WaterclockError('invalid', `${url.protocol}// is the HTTP client's; import Waterclock from 'waterclock'`);
  }
  if (url.protocol !== 'redis:' && url.protocol !== 'rediss:') throw invalid(`\`url\` begins with ${url.protocol}`);
  if (url.hostname === '') throw invalid('`url` names no host');
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const port = url.port === '' ? DEFAULT_PORT : Number(url.port);
  return { host, port, tls: url.protocol === 'rediss:', token, shown: `${url.protocol}//${url.hostname}:${port}` };
}

function invalid(what: string, cause?: unknown): WaterclockError {
  return new WaterclockError('invalid', `${what}; write it as redis://127.0.0.1:6380`, { cause });
}
