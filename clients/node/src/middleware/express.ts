import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { Decision } from '../decision.js';
import { PROBLEM_JSON, problemOf } from './refusal.js';
import { decide, type Checker, type Rule } from './rule.js';

export interface RateLimitOptions extends Rule<Request> {
  /** Answers a refused request in place of the problem document. Header fields are already set. */
  readonly onRefused?: (decision: Decision, request: Request, response: Response, next: NextFunction) => void;
}

/** Express middleware. The decision is in `response.locals.rateLimit` of requests that pass. */
export function rateLimit(client: Checker, options: RateLimitOptions): RequestHandler {
  return async (request, response, next) => {
    let decision: Decision | null;
    try {
      decision = await decide(client, options, request);
    } catch (error) {
      next(error);
      return;
    }
    if (decision === null) {
      next();
      return;
    }
    response.set(decision.headers);
    response.locals['rateLimit'] = decision;
    if (decision.allowed) next();
    else if (options.onRefused) options.onRefused(decision, request, response, next);
    else refuse(decision, response);
  };
}

function refuse(decision: Decision, response: Response): void {
  const problem = problemOf(decision);
  response.status(problem.status).type(PROBLEM_JSON).send(JSON.stringify(problem));
}
