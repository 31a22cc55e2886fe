/**
 * Why a call failed.
 *
 * | kind | meaning |
 * |---|---|
 * | `invalid` | the server understood the call and rejected it: bad input, unknown policy, unknown reservation |
 * | `unauthorized` | the token is missing, unknown or lacks a role |
 * | `unavailable` | no decision: no connection, deadline passed, server overloaded or its store is down |
 */
export type ErrorKind = 'invalid' | 'unauthorized' | 'unavailable';

export interface ErrorDetails {
  /** The HTTP status, where there was one. */
  readonly httpStatus?: number | undefined;
  /** The first word of an error of the Redis protocol, such as `ERR` or `BUSY`. */
  readonly code?: string | undefined;
  /** The field of the request that is wrong, where the server names it. */
  readonly field?: string | undefined;
  /** The store failed and the policy has `on_store_error = "deny"`: the operator chose to refuse. */
  readonly deniedByPolicy?: boolean | undefined;
  readonly cause?: unknown;
}

/** Every error of this package. Compare `kind`; a refusal is a decision, never an error. */
export class WaterclockError extends Error {
  override readonly name = 'WaterclockError';
  readonly kind: ErrorKind;
  readonly httpStatus: number | undefined;
  readonly code: string | undefined;
  readonly field: string | undefined;
  readonly deniedByPolicy: boolean;

  constructor(kind: ErrorKind, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.kind = kind;
    this.httpStatus = details.httpStatus;
    this.code = details.code;
    this.field = details.field;
    this.deniedByPolicy = details.deniedByPolicy ?? false;
  }
}

/** There was no reply. */
export function noAnswer(server: string, cause: unknown): WaterclockError {
  return new WaterclockError(
    'unavailable',
    `no answer from ${server}: ${reasonOf(cause)}; check that the server runs and the address is right`,
    { cause },
  );
}

/** The reply is none that Waterclock gives. */
export function notWaterclock(server: string): WaterclockError {
  return new WaterclockError('unavailable', `${server} does not answer as Waterclock does; check the URL`);
}

/** `fetch` says only "fetch failed", and its cause why; a host with several addresses has no message but a code. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.cause instanceof Error) return reasonOf(error.cause);
  return error.message || (error as Error & { code?: string }).code || error.name;
}
