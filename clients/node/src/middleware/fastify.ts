import type { FastifyPluginCallback, FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import type { Decision } from '../decision.js';
import { PROBLEM_JSON, problemOf } from './refusal.js';
import { decide, type Checker, type Rule } from './rule.js';

export interface RateLimitOptions extends Rule<FastifyRequest> {
  /** Answers a refused request in place of the problem document. Header fields are already set. */
  readonly onRefused?: (decision: Decision, request: FastifyRequest, reply: FastifyReply) => unknown;
}

export interface PluginOptions extends RateLimitOptions {
  readonly client: Checker;
  /** When requests are checked ("onRequest"). Choose "preHandler" if the key or the cost is in the body. */
  readonly hook?: 'onRequest' | 'preHandler';
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What is different for this route; `false`: it is not limited. */
    waterclock?: Partial<RateLimitOptions> | false;
  }
  interface FastifyRequest {
    /** Set by `waterclock/fastify`: the decision about this request, if it was counted. */
    waterclock?: Decision | null;
  }
}

/** A hook for single routes: `{ onRequest: rateLimit(client, { policy, key }) }`. */
export function rateLimit(client: Checker, options: RateLimitOptions): onRequestAsyncHookHandler {
  return (request, reply) => limit(client, options, request, reply);
}

/** A plugin that limits all routes of its scope. `config.waterclock` of a route changes its options. */
export const waterclock: FastifyPluginCallback<PluginOptions> = (fastify, { client, hook, ...options }, done) => {
  // A scope may be limited by several policies, and so may those inside it.
  if (!fastify.hasRequestDecorator('waterclock')) fastify.decorateRequest('waterclock', null);
  const check = async (request: FastifyRequest, reply: FastifyReply) => {
    const ofRoute = request.routeOptions.config.waterclock;
    if (ofRoute === false) return undefined;
    return limit(client, { ...options, ...ofRoute }, request, reply);
  };
  if (hook === 'preHandler') fastify.addHook('preHandler', check);
  else fastify.addHook('onRequest', check);
  done();
};

// Fastify's own sign that hooks of a plugin apply to the scope that registers it.
Object.assign(waterclock, { [Symbol.for('skip-override')]: true, [Symbol.for('fastify.display-name')]: 'waterclock' });

export default waterclock;

async function limit(
  client: Checker,
  options: RateLimitOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  const decision = await decide(client, options, request);
  if (decision === null) return undefined;
  reply.headers(decision.headers);
  request.waterclock = decision;
  if (decision.allowed) return undefined;
  if (options.onRefused) {
    await options.onRefused(decision, request, reply);
    return reply;
  }
  const problem = problemOf(decision);
  return reply.code(problem.status).type(PROBLEM_JSON).send(JSON.stringify(problem));
}
