import type { Decision } from '../decision.js';

export const PROBLEM_JSON = 'application/problem+json';

/** A problem as RFC 9457 has it. It names neither the key nor the policy: those may be private. */
export interface Problem {
  readonly type: 'about:blank';
  readonly title: string;
  readonly status: number;
  readonly detail: string;
}

/** What a refused request is answered with: 429, or 503 if the fail mode refused it in place of the server. */
export function problemOf(decision: Decision): Problem {
  if (decision.source === 'unavailable') {
    const detail = 'the rate limiter cannot be reached; try again later';
    return { type: 'about:blank', title: 'Service Unavailable', status: 503, detail };
  }
  return { type: 'about:blank', title: 'Too Many Requests', status: 429, detail: detailOf(decision.retryAfterMs) };
}

function detailOf(retryAfterMs: number | null): string {
  if (retryAfterMs === null) return 'the rate limit does not admit this request at any time';
  return `the rate limit is used up; try again in ${Math.ceil(retryAfterMs / 1000)} s`;
}
