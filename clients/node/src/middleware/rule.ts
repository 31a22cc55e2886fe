import type { Client } from '../client.js';
import type { Cost, Decision } from '../decision.js';
import type { Factor } from '../transport.js';

/** The part of a client that middleware uses. */
export type Checker = Pick<Client, 'check'>;

/** A value, or how a request gives it. */
export type FromRequest<Request, Value> = Value | ((request: Request) => Value | Promise<Value>);

/** Which requests are counted, and how. */
export interface Rule<Request> {
  readonly policy: string;
  /** Whom to count: a user, an API key, the client address that the framework gives. */
  readonly key: (request: Request) => string | Promise<string>;
  readonly cost?: FromRequest<Request, Cost | undefined>;
  readonly tier?: FromRequest<Request, string | undefined>;
  readonly factor?: FromRequest<Request, Factor | undefined>;
  /** Requests that are not counted. */
  readonly skip?: (request: Request) => boolean | Promise<boolean>;
}

/** Checks a request; `null`: the rule skips it. */
export async function decide<Request>(
  client: Checker,
  rule: Rule<Request>,
  request: Request,
): Promise<Decision | null> {
  if (await rule.skip?.(request)) return null;
  const [key, cost, tier, factor] = await Promise.all([
    rule.key(request),
    valueOf(rule.cost, request),
    valueOf(rule.tier, request),
    valueOf(rule.factor, request),
  ]);
  return client.check(rule.policy, key, { cost, tier, factor });
}

function valueOf<Request, Value>(from: FromRequest<Request, Value>, request: Request): Value | Promise<Value> {
  return from instanceof Function ? from(request) : from;
}
