import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { Decision } from '../decision.js';
import { PROBLEM_JSON, problemOf } from './refusal.js';
import { decide, type Checker, type Rule } from './rule.js';

export interface RateLimitOptions extends Rule<Request> {
  /** Answers a refused request in place of the problem document. Header fields are already set. */
  readonly onRefused?: (
    decision: Decision,
    request: Request,
    response: Response,
    next: NextFunction,
  ) => void | Promise<void>;
}

/** Express middleware. The decision is in `response.locals.waterclock` of requests that pass. */
export function rateLimit(client: Checker, options: RateLimitOptions): RequestHandler {
  return async (request, response, next) => {
    try {
      const decision = await decide(client, options, request);
      if (decision !== null) {
        response.set(decision.headers);
        response.locals['waterclock'] = decision;
        if (!decision.allowed) {
          await (options.onRefused ?? refuse)(decision, request, response, next);
          return;
        }
      }
    } catch (error) {
      next(error);
      return;
    }
    next();
  };
}

function refuse(decision: Decision, _request: Request, response: Response): void {
  const problem = problemOf(decision);
  response.status(problem.status).type(PROBLEM_JSON).send(JSON.stringify(problem));
}
