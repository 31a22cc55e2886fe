/** The state of a limit after a call. Times are rounded up; Infinity is never. */
export interface LimitInfo {
  readonly blocked: boolean;
  /** Calls left. */
  readonly remaining: number;
  /** Until the next call can pass. */
  readonly resetSec: number;
  readonly resetMs: number;
  /** Until nothing is used any more. */
  readonly fullResetSec: number;
  readonly fullResetMs: number;
}

/** The info of a limit that does not apply. */
export const disabledLimitInfo: LimitInfo = Object.freeze({
  blocked: false,
  remaining: Number.MAX_SAFE_INTEGER,
  resetSec: 0,
  resetMs: 0,
  fullResetSec: 0,
  fullResetMs: 0,
});

/** What `sendRateLimitHeaders` needs of a reply; Fastify's has it. */
export interface HeaderReply {
  header(name: string, value: string): unknown;
}

/** Sets Sharkey's response headers. A key that is blocked for good gets no time to retry. */
export function sendRateLimitHeaders(reply: HeaderReply, info: LimitInfo): void {
  reply.header('X-RateLimit-Clear', seconds(info.fullResetMs));
  reply.header('X-RateLimit-Remaining', String(info.remaining));
  if (!info.blocked || !Number.isFinite(info.resetMs)) return;
  reply.header('Retry-After', String(info.resetSec));
  reply.header('X-RateLimit-Reset', seconds(info.resetMs));
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(3);
}
