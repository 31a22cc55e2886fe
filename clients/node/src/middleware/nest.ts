// The only framework that is imported and not just named: Nest logs every exception that is not an HttpException.
import { HttpException } from '@nestjs/common';
import type { CanActivate, ExecutionContext } from '@nestjs/common';
import type { Decision } from '../decision.js';
import { PROBLEM_JSON, problemOf } from './refusal.js';
import { decide, type Checker, type Rule } from './rule.js';

export interface RateLimitOptions extends Rule<ExecutionContext> {
  /** The exception for a refused request, in place of an `HttpException` with a problem document. */
  readonly onRefused?: (decision: Decision, context: ExecutionContext) => Error;
}

type Decorated = object;
const decorated = new WeakMap<Decorated, Partial<RateLimitOptions> | false>();

/** Options of a controller or a handler, in place of the guard's own; `false`: it is not limited. */
export function RateLimit(options: Partial<RateLimitOptions> | false): ClassDecorator & MethodDecorator {
  return (target: object, _name?: string | symbol, descriptor?: PropertyDescriptor): void => {
    decorated.set(descriptor === undefined ? target : (descriptor.value as Decorated), options);
  };
}

/**
 * A guard for `app.useGlobalGuards`, `APP_GUARD` or `@UseGuards`. Options of a handler take precedence over those of its
 * controller, and those over the guard's own. Without a policy and a key from any of them, a request is not counted.
 */
export class WaterclockGuard implements CanActivate {
  readonly #client: Checker;
  readonly #options: Partial<RateLimitOptions>;

  constructor(client: Checker, options: Partial<RateLimitOptions> = {}) {
    this.#client = client;
    this.#options = options;
  }

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const options = this.#optionsFor(context);
    if (options === null) return true;
    const decision = await decide(this.#client, options, context);
    if (decision === null) return true;
    setHeaders(context, decision.headers);
    if (decision.allowed) return true;
    if (options.onRefused) throw options.onRefused(decision, context);
    setHeaders(context, { 'content-type': PROBLEM_JSON });
    const problem = problemOf(decision);
    throw new HttpException({ ...problem }, problem.status);
  }

  #optionsFor(context: ExecutionContext): RateLimitOptions | null {
    const ofClass = decorated.get(context.getClass());
    const ofHandler = decorated.get(context.getHandler());
    if (ofHandler === false || (ofClass === false && ofHandler === undefined)) return null;
    const { policy, key, ...rest } = { ...this.#options, ...(ofClass || {}), ...ofHandler };
    return policy === undefined || key === undefined ? null : { policy, key, ...rest };
  }
}

function setHeaders(context: ExecutionContext, fields: Readonly<Record<string, string>>): void {
  if (context.getType() !== 'http') return;
  // Express and Fastify both have it.
  const response = context.switchToHttp().getResponse<{ header(name: string, value: string): unknown }>();
  for (const [name, value] of Object.entries(fields)) response.header(name, value);
}
