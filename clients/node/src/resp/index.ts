import { Client, type ClientOptions } from '../client.js';
import { RespTransport, type RespOptions } from './transport.js';

export interface WaterclockOptions extends RespOptions, ClientOptions {}

/** A client over the Redis protocol: one TCP connection that all calls share, and one for each call that waits. */
export class Waterclock extends Client {
  constructor(options: WaterclockOptions) {
    super(new RespTransport(options), options);
  }
}

export type * from '../public.js';
export { Reservation, WaterclockError } from '../public.js';
