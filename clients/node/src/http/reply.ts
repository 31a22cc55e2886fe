import type { JsonObject } from '../decision.js';
import { isObject } from '../decision.js';
import { WaterclockError, type ErrorKind } from '../error.js';

export interface Reply {
  readonly body: JsonObject;
  readonly headers: Headers;
}

/** Reads a response: the body of a success or of a refusal, or else the error that it describes. */
export function readReply(response: Response, text: string, server: string): Reply {
  const { status, headers } = response;
  const body = parse(text);
  const isProblem = headers.get('content-type')?.startsWith('application/problem+json') ?? false;
  if (body !== null && !isProblem && (status === 200 || status === 201 || status === 429)) return { body, headers };
  throw problem(status, body ?? {}, server);
}

function parse(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

function problem(status: number, body: JsonObject, server: string): WaterclockError {
  const { detail, field, failure } = body;
  const said = typeof detail === 'string' ? detail : 'it does not answer as Waterclock does; check the URL';
  return new WaterclockError(kindOf(status), `${server} answered ${status}: ${said}`, {
    httpStatus: status,
    field: typeof field === 'string' ? field : undefined,
    deniedByPolicy: status === 503 && failure !== undefined,
  });
}

function kindOf(status: number): ErrorKind {
  if (status === 401 || status === 403) return 'unauthorized';
  // No room in the store for what an administrator sets.
  if (status === 507) return 'invalid';
  // A 429 that is no decision slows down unknown tokens.
  if (status === 429 || status === 408 || status < 400 || status >= 500) return 'unavailable';
  return 'invalid';
}
