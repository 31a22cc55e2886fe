import { validateBound, validateToken } from '../arguments.js';
import type { Cost, HeaderFields, JsonObject, Question } from '../decision.js';
import { clientClosed, startDeadline, type Deadline } from '../deadline.js';
import { noAnswer, notWaterclock, WaterclockError } from '../error.js';
import { Gate } from '../gate.js';
import type { Answer, Outcome, ReserveQuestion, ScaledQuestion, Transport } from '../transport.js';
import { readReply, type Reply } from './reply.js';

export interface HttpOptions {
  readonly url: string;
  readonly token?: string | undefined;
  /** Calls that are sent at a time (64); the others queue. */
  readonly connections?: number | undefined;
  /** Calls of `wait` that are sent at a time (64), beside the others. */
  readonly waits?: number | undefined;
  /** Calls that may be under way or queued (10,000); more fail as unavailable. */
  readonly maxOutstanding?: number | undefined;
  /** Used in place of the global `fetch`, for example with a certificate authority of your own. */
  readonly fetch?: typeof fetch | undefined;
}

interface Request {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly body?: JsonObject | undefined;
}

/** The server's HTTP API, by `fetch`: works in Node, browsers' workers and edge runtimes. */
export class HttpTransport implements Transport {
  readonly #base: string;
  readonly #headers: Record<string, string>;
  readonly #fetch: typeof fetch;
  readonly #calls: Gate;
  readonly #waits: Gate;
  readonly #deadlines = new Set<Deadline>();
  #closed = false;

  constructor(options: HttpOptions) {
    this.#base = baseOf(options.url);
    this.#headers = { accept: 'application/json', 'content-type': 'application/json' };
    if (options.token !== undefined) {
      validateToken(options.token);
      this.#headers['authorization'] = `Bearer ${options.token}`;
    }
    // Called as a plain function: some runtimes reject `fetch` with another `this`.
    const given = options.fetch;
    this.#fetch = (input, init) => (given ?? fetch)(input, init);
    const maxOutstanding = validateBound('maxOutstanding', options.maxOutstanding ?? 10_000);
    const connections = validateBound('connections', options.connections ?? 64);
    const waits = validateBound('waits', options.waits ?? 64);
    this.#calls = new Gate(connections, maxOutstanding);
    this.#waits = new Gate(waits, maxOutstanding);
  }

  check(question: ScaledQuestion, deadlineMs: number): Promise<Answer> {
    return this.#post('/v1/check', bodyOf(question), deadlineMs);
  }

  async checkAll(questions: readonly ScaledQuestion[], deadlineMs: number): Promise<readonly Answer[]> {
    const { body, headers } = await this.#post('/v1/check', { checks: questions.map(bodyOf), atomic: true }, deadlineMs);
    const decisions = body['decisions'];
    if (!Array.isArray(decisions)) throw notWaterclock(this.#base);
    // The response has one set of fields for all of them.
    return decisions.map((decision) => ({ body: decision as JsonObject, headers }));
  }

  peek(question: ScaledQuestion, deadlineMs: number): Promise<Answer> {
    return this.#post('/v1/peek', bodyOf(question), deadlineMs);
  }

  async wait(question: ScaledQuestion, withinMs: number, deadlineMs: number): Promise<Answer> {
    const started = performance.now();
    // The time in the queue of this client counts.
    const left = () => Math.max(withinMs - (performance.now() - started), 0);
    const request = () => ({
      method: 'POST' as const,
      path: '/v1/wait',
      body: { ...bodyOf(question), within: duration(left()) },
    });
    return answerOf(await this.#send(request, deadlineMs, this.#waits));
  }

  refund(question: Question, deadlineMs: number): Promise<Answer> {
    return this.#post('/v1/refund', bodyOf(question), deadlineMs);
  }

  reset(policy: string, key: string, deadlineMs: number): Promise<Answer> {
    return this.#post('/v1/reset', { policy, key }, deadlineMs);
  }

  report(question: ScaledQuestion, outcome: Outcome | undefined, deadlineMs: number): Promise<Answer> {
    const body = outcome === undefined ? bodyOf(question) : { ...bodyOf(question), outcome };
    return this.#post('/v1/report', body, deadlineMs);
  }

  reserve(question: ReserveQuestion, deadlineMs: number): Promise<Answer> {
    const body = defined({
      ...bodyOf(question),
      ttl: duration(question.ttlMs),
      id: question.id,
      on_expiry: question.onExpiry,
    });
    return this.#post('/v1/reserve', body, deadlineMs);
  }

  async commit(id: string, cost: Cost, deadlineMs: number): Promise<void> {
    await this.#call({ method: 'POST', path: `/v1/reservations/${segment(id)}/commit`, body: { cost } }, deadlineMs);
  }

  async cancel(id: string, deadlineMs: number): Promise<void> {
    await this.#call({ method: 'DELETE', path: `/v1/reservations/${segment(id)}` }, deadlineMs);
  }

  async setOverride(policy: string, key: string, override: JsonObject, deadlineMs: number): Promise<void> {
    await this.#call({ method: 'PUT', path: `${pathOfKey(policy, key)}/override`, body: override }, deadlineMs);
  }

  async getOverride(policy: string, key: string, deadlineMs: number): Promise<JsonObject | null> {
    const override = await this.#get(`${pathOfKey(policy, key)}/override`, deadlineMs);
    if (override !== null) return override;
    // 404 is a key without an override, or an unknown policy.
    await this.#call({ method: 'GET', path: pathOfPolicy(policy) }, deadlineMs);
    return null;
  }

  async clearOverride(policy: string, key: string, deadlineMs: number): Promise<void> {
    await this.#call({ method: 'DELETE', path: `${pathOfKey(policy, key)}/override` }, deadlineMs);
  }

  async putPolicy(policy: string, definition: JsonObject, deadlineMs: number): Promise<void> {
    await this.#call({ method: 'PUT', path: pathOfPolicy(policy), body: definition }, deadlineMs);
  }

  getPolicy(policy: string, deadlineMs: number): Promise<JsonObject | null> {
    return this.#get(pathOfPolicy(policy), deadlineMs);
  }

  async deletePolicy(policy: string, deadlineMs: number): Promise<boolean> {
    const reply = await this.#call({ method: 'DELETE', path: pathOfPolicy(policy) }, deadlineMs).catch(nullIfNotFound);
    return reply !== null;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const deadline of this.#deadlines) deadline.abort(clientClosed());
  }

  async #post(path: string, body: JsonObject, deadlineMs: number): Promise<Answer> {
    return answerOf(await this.#call({ method: 'POST', path, body }, deadlineMs));
  }

  async #get(path: string, deadlineMs: number): Promise<JsonObject | null> {
    const reply = await this.#call({ method: 'GET', path }, deadlineMs).catch(nullIfNotFound);
    return reply === null ? null : reply.body;
  }

  #call(request: Request, deadlineMs: number): Promise<Reply> {
    return this.#send(() => request, deadlineMs, this.#calls);
  }

  /** Sends what `request` says once there is a place, and reads the reply. */
  async #send(request: () => Request, deadlineMs: number, gate: Gate): Promise<Reply> {
    if (this.#closed) throw clientClosed();
    const deadline = startDeadline(deadlineMs, this.#base);
    this.#deadlines.add(deadline);
    try {
      await gate.enter(deadline.signal);
      try {
        return await this.#exchange(request(), deadline.signal);
      } finally {
        gate.leave();
      }
    } finally {
      deadline.cancel();
      this.#deadlines.delete(deadline);
    }
  }

  async #exchange({ method, path, body }: Request, signal: AbortSignal): Promise<Reply> {
    let response: Response;
    let text: string;
    try {
      response = await this.#fetch(this.#base + path, {
        method,
        headers: this.#headers,
        // A redirect that is followed could charge twice.
        redirect: 'manual',
        signal,
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      text = await response.text();
    } catch (error) {
      // Not every `fetch` rejects with the reason.
      if (signal.aborted) throw signal.reason;
      throw noAnswer(this.#base, error);
    }
    return readReply(response, text, this.#base);
  }
}

function baseOf(text: string): string {
  let url: URL;
  try {
    url = new URL(text);
  } catch (cause) {
    throw new WaterclockError('invalid', `\`url\` is "${text}"; write it as http://127.0.0.1:8080`, { cause });
  }
  if (url.protocol === 'redis:' || url.protocol === 'rediss:') {
    throw new WaterclockError('invalid', `${url.protocol}// needs sockets; import Waterclock from 'waterclock/resp'`);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new WaterclockError('invalid', `\`url\` begins with ${url.protocol}; write it as http://127.0.0.1:8080`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new WaterclockError('invalid', '`url` has a user or a password; give the token as `token`');
  }
  return url.origin + url.pathname.replace(/\/+$/, '');
}

function bodyOf(question: ScaledQuestion): JsonObject {
  const { policy, key, cost, tier, factor } = question;
  return defined({ policy, key, cost, tier, factor });
}

function defined(fields: Record<string, JsonObject[string] | undefined>): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as JsonObject;
}

function duration(milliseconds: number): string {
  return `${Math.ceil(milliseconds * 1000)}us`;
}

function pathOfPolicy(policy: string): string {
  return `/v1/policies/${segment(policy)}`;
}

function pathOfKey(policy: string, key: string): string {
  return `${pathOfPolicy(policy)}/keys/${segment(key)}`;
}

/** Encodes one segment of a path. `fetch` would resolve dots, and the request would be for something else. */
function segment(text: string): string {
  if (text === '.' || text === '..') {
    throw new WaterclockError('invalid', `"${text}" cannot be part of a URL's path; use waterclock/resp for this call`);
  }
  return encodeURIComponent(text);
}

function answerOf({ body, headers }: Reply): Answer {
  return { body, headers: rateLimitFields(headers) };
}

function rateLimitFields(headers: Headers): HeaderFields {
  const fields: Record<string, string> = {};
  headers.forEach((value, name) => {
    if (name === 'retry-after' || /^(x-)?ratelimit/.test(name)) fields[name] = value;
  });
  return fields;
}

function nullIfNotFound(error: unknown): null {
  if (error instanceof WaterclockError && error.httpStatus === 404) return null;
  throw error;
}
