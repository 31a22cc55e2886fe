import { WaterclockError } from './error.js';

// A longer timer fires at once.
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Runs `action` when the time is up, unless the function that it gives is called before. */
export function after(milliseconds: number, action: () => void): () => void {
  const timer = setTimeout(action, Math.min(milliseconds, LONGEST_TIMER_MS));
  return () => clearTimeout(timer);
}

/** A signal that aborts when the time is up. `cancel` releases its timer. */
export interface Deadline {
  readonly signal: AbortSignal;
  abort(reason: WaterclockError): void;
  cancel(): void;
}

export function startDeadline(deadlineMs: number, server: string): Deadline {
  const controller = new AbortController();
  const abort = (reason: WaterclockError) => controller.abort(reason);
  const cancel = after(deadlineMs, () => abort(deadlinePassed(deadlineMs, server)));
  return { signal: controller.signal, abort, cancel };
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
