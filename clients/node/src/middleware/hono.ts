import type { Context, MiddlewareHandler } from 'hono';
import type { Decision } from '../decision.js';
import { PROBLEM_JSON, problemOf } from './refusal.js';
import { decide, type Checker, type Rule } from './rule.js';

export interface RateLimitOptions extends Rule<Context> {
  /** Answers a refused request in place of the problem document. Header fields are added to the response. */
  readonly onRefused?: (decision: Decision, context: Context) => Response | Promise<Response>;
}

declare module 'hono' {
  interface ContextVariableMap {
    /** Set by `waterclock/hono`: the decision about this request, if it was counted. */
    waterclock: Decision | undefined;
  }
}

/** Hono middleware. The decision is `context.get('waterclock')` of requests that pass. */
export function rateLimit(client: Checker, options: RateLimitOptions): MiddlewareHandler {
  return async (context, next) => {
    const decision = await decide(client, options, context);
    if (decision === null) return next();
    context.set('waterclock', decision);
    if (decision.allowed) await next();
    else context.res = await (options.onRefused ?? refuse)(decision, context);
    // Only now: a handler may have made its response without this context.
    for (const [name, value] of Object.entries(decision.headers)) context.header(name, value);
    return undefined;
  };
}

function refuse(decision: Decision): Response {
  const problem = problemOf(decision);
  return new Response(JSON.stringify(problem), { status: problem.status, headers: { 'content-type': PROBLEM_JSON } });
}
