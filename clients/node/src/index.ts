import { Client, type ClientOptions } from './client.js';
import { HttpTransport, type HttpOptions } from './http/transport.js';

export interface WaterclockOptions extends HttpOptions, ClientOptions {}

/** A client over HTTP. It uses `fetch` and nothing of Node, so it also runs on edge runtimes. */
export class Waterclock extends Client {
  constructor(options: WaterclockOptions) {
    super(new HttpTransport(options), options);
  }
}

export type * from './public.js';
export { Reservation, WaterclockError } from './public.js';
