import { WaterclockError } from './error.js';

// A longer timer fires at once.
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** A signal that aborts when the time is up. `cancel` releases its timer. */
export interface Deadline {
  readonly signal: AbortSignal;
  abort(reason: WaterclockError): void;
  cancel(): void;
}

export function startDeadline(deadlineMs: number, server: string): Deadline {
  const controller = new AbortController();
  const abort = () => controller.abort(deadlinePassed(deadlineMs, server));
  const timer = setTimeout(abort, Math.min(deadlineMs, LONGEST_TIMER_MS));
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    cancel: () => clearTimeout(timer),
  };
}

export function deadlinePassed(deadlineMs: number, server: string): WaterclockError {
  return new WaterclockError(
    'unavailable',
    `${server} did not answer within ${deadlineMs} ms; check that it is reachable, or raise \`deadlineMs\``,
  );
}

export function clientClosed(): WaterclockError {
  return new WaterclockError('unavailable', 'the client is closed; create another one');
}
