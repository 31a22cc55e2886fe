import {
  validate,
  validateChoice,
  validateCost,
  validateMilliseconds,
  validateObject,
  validateText,
} from './arguments.js';
import type { Cost, Decision, Decisions, JsonObject, Question } from './decision.js';
import { isObject, madeUpDecision, readDecision, unexpected } from './decision.js';
import { WaterclockError } from './error.js';
import { noSettlement, Reservation } from './reservation.js';
import type { Factor, Outcome, Transport } from './transport.js';

/**
 * What `check`, `checkAll`, `peek`, `wait` and `reserve` do when the server cannot be asked: throw the error, allow
 * (fail open) or refuse (fail closed). A made-up decision has the `source` "unavailable".
 */
export type OnUnavailable = 'throw' | 'allow' | 'refuse';

export interface ClientOptions {
  /** How long a call may take, in milliseconds (1,000). */
  readonly deadlineMs?: number | undefined;
  /** The fail mode ("throw"). */
  readonly onUnavailable?: OnUnavailable | undefined;
}

export interface CallOptions {
  /** How long this call may take, in milliseconds. */
  readonly deadlineMs?: number | undefined;
}

export interface CheckOptions extends CallOptions {
  /** 1 if it is not given. */
  readonly cost?: Cost | undefined;
  /** The caller's tier; its name is one of the policy's `tiers`. */
  readonly tier?: string | undefined;
  /** Scales the limits for this call. */
  readonly factor?: Factor | undefined;
}

/** One of several checks. */
export interface Charge {
  readonly policy: string;
  readonly key: string;
  readonly cost?: Cost | undefined;
  readonly tier?: string | undefined;
  readonly factor?: Factor | undefined;
}

export interface WaitOptions extends CheckOptions {
  /** How long the call may wait to be admitted, in milliseconds; 60,000 at most. The deadline comes on top. */
  readonly withinMs: number;
}

export interface RefundOptions extends CallOptions {
  readonly cost?: Cost | undefined;
}

/** Either a result for an `error-rate` limit, or a cost that is known only afterwards. */
export type ReportOptions = CallOptions & {
  readonly tier?: string | undefined;
  readonly factor?: Factor | undefined;
} & (
    | { readonly outcome: Outcome; readonly cost?: undefined }
    | { readonly cost: Cost; readonly outcome?: undefined }
  );

export interface ReserveOptions extends CheckOptions {
  /** When the reservation expires, in milliseconds (60,000); 24 hours at most. */
  readonly ttlMs?: number | undefined;
  /** The caller's own id, which makes the call safe to repeat. */
  readonly id?: string | undefined;
  /** Gives units back that are not settled in time; otherwise they stay charged. */
  readonly onExpiry?: 'release' | undefined;
}

/** What `reserved` gives back: the value of the work, or the refusal. */
export type Reserved<T> =
  | { readonly reserved: true; readonly decision: Decision; readonly value: T }
  | { readonly reserved: false; readonly decision: Decision };

/** The override of a key, as the server's JSON has it. */
export type Override = JsonObject & {
  readonly limits?: readonly (string | JsonObject)[];
  readonly factor?: number | string;
  readonly tier?: string;
  readonly block?: boolean;
  readonly exempt?: boolean;
  /** A duration such as `"2d"`. */
  readonly expires_in?: string;
};

/** A policy, as the configuration file has its table. */
export type PolicyDefinition = JsonObject & { readonly limits: readonly (string | JsonObject)[] };

const DEADLINE_MS = 1_000;
const TTL_MS = 60_000;

/** The verbs of a rate limiter, over any transport. */
export class Client implements AsyncDisposable {
  readonly #transport: Transport;
  readonly #deadlineMs: number;
  readonly #onUnavailable: OnUnavailable;

  constructor(transport: Transport, options: ClientOptions = {}) {
    this.#transport = transport;
    this.#deadlineMs = options.deadlineMs ?? DEADLINE_MS;
    validateMilliseconds('deadlineMs', this.#deadlineMs);
    this.#onUnavailable = options.onUnavailable ?? 'throw';
    validateChoice('onUnavailable', this.#onUnavailable, ['throw', 'allow', 'refuse']);
  }

  /** Charges the key if its limits admit the cost. */
  check(policy: string, key: string, options: CheckOptions = {}): Promise<Decision> {
    const question = { ...options, policy, key };
    return this.#decide(question, () => this.#transport.check(question, this.#deadline(options)));
  }

  /** Charges all of them, or none if any is refused. */
  async checkAll(charges: readonly Charge[], options: CallOptions = {}): Promise<Decisions> {
    charges.forEach(validate);
    try {
      const answers = await this.#transport.checkAll(charges, this.#deadline(options));
      if (answers.length !== charges.length) unexpected(`${answers.length} decisions for ${charges.length} checks`);
      const decisions = answers.map((answer) => readDecision(answer.body, answer.headers));
      return { allowed: decisions.every((decision) => decision.allowed), decisions };
    } catch (error) {
      const allowed = this.#failMode(error);
      return { allowed, decisions: charges.map((charge) => madeUpDecision(charge, allowed)) };
    }
  }

  /** What a check would answer, without charging. */
  peek(policy: string, key: string, options: CheckOptions = {}): Promise<Decision> {
    const question = { ...options, policy, key };
    return this.#decide(question, () => this.#transport.peek(question, this.#deadline(options)));
  }

  /** Waits in line until the cost is admitted, or answers with the refusal if that takes longer than `withinMs`. */
  async wait(policy: string, key: string, options: WaitOptions): Promise<Decision> {
    validateMilliseconds('withinMs', options.withinMs);
    const question = { ...options, policy, key };
    const deadlineMs = options.withinMs + this.#deadline(options);
    return this.#decide(question, () => this.#transport.wait(question, options.withinMs, deadlineMs));
  }

  /** Gives units back. */
  async refund(policy: string, key: string, options: RefundOptions = {}): Promise<Decision> {
    const question = { ...options, policy, key };
    validate(question);
    const answer = await this.#transport.refund(question, this.#deadline(options));
    return readDecision(answer.body, answer.headers);
  }

  /** Clears what the key has used. */
  async reset(policy: string, key: string, options: CallOptions = {}): Promise<Decision> {
    validate({ policy, key });
    const answer = await this.#transport.reset(policy, key, this.#deadline(options));
    return readDecision(answer.body, answer.headers);
  }

  /** Reports a result, or charges a cost that is known only afterwards, into debt if there is no room. */
  async report(policy: string, key: string, options: ReportOptions): Promise<Decision> {
    const question = { ...options, policy, key };
    validate(question);
    if (options.cost === undefined) validateChoice('outcome', options.outcome, ['ok', 'error']);
    const answer = await this.#transport.report(question, options.outcome, this.#deadline(options));
    return readDecision(answer.body, answer.headers);
  }

  /** Reserves an estimate, to be committed or cancelled later. Test `reserved` of what it gives. */
  async reserve(policy: string, key: string, options: ReserveOptions = {}): Promise<Reservation> {
    const question = { ...options, policy, key, ttlMs: options.ttlMs ?? TTL_MS };
    const deadlineMs = this.#deadline(options);
    validate(question);
    validateMilliseconds('ttlMs', question.ttlMs);
    try {
      const answer = await this.#transport.reserve(question, deadlineMs);
      return this.#readReservation(answer.body, readDecision(answer.body, answer.headers), deadlineMs);
    } catch (error) {
      const allowed = this.#failMode(error);
      const decision = madeUpDecision(question, allowed);
      return new Reservation(decision, allowed ? 'unavailable' : null, null, noSettlement);
    }
  }

  /**
   * Reserves, does the work, and settles: at the cost that the work commits, else at the estimate. If the work throws
   * before it commits, the reservation is cancelled. If units cannot be reserved, the work is not done.
   */
  async reserved<T>(
    policy: string,
    key: string,
    options: ReserveOptions,
    work: (reservation: Reservation) => Promise<T> | T,
  ): Promise<Reserved<T>> {
    const reservation = await this.reserve(policy, key, options);
    const { decision } = reservation;
    if (!reservation.reserved) return { reserved: false, decision };
    let value: T;
    try {
      value = await work(reservation);
    } catch (error) {
      await reservation.abandon();
      throw error;
    }
    await reservation[Symbol.asyncDispose]();
    return { reserved: true, decision, value };
  }

  /** Commits a reservation by its id, for example one that another process made. */
  async commit(id: string, cost: Cost, options: CallOptions = {}): Promise<void> {
    validateText('id', id);
    validateCost(cost);
    return this.#transport.commit(id, cost, this.#deadline(options));
  }

  /** Cancels a reservation by its id. */
  async cancel(id: string, options: CallOptions = {}): Promise<void> {
    validateText('id', id);
    return this.#transport.cancel(id, this.#deadline(options));
  }

  /** Sets the override of a key. Needs the role `admin`, as all calls below do. */
  async setOverride(policy: string, key: string, override: Override, options: CallOptions = {}): Promise<void> {
    validate({ policy, key });
    validateObject('override', override);
    return this.#transport.setOverride(policy, key, override, this.#deadline(options));
  }

  /** The override of a key; `null`: it has none. */
  async getOverride(policy: string, key: string, options: CallOptions = {}): Promise<JsonObject | null> {
    validate({ policy, key });
    return this.#transport.getOverride(policy, key, this.#deadline(options));
  }

  /** Clears the override of a key, if it has one. */
  async clearOverride(policy: string, key: string, options: CallOptions = {}): Promise<void> {
    validate({ policy, key });
    return this.#transport.clearOverride(policy, key, this.#deadline(options));
  }

  /** Sets a policy at run time. The same policy again changes nothing. */
  async putPolicy(policy: string, definition: PolicyDefinition, options: CallOptions = {}): Promise<void> {
    validateText('policy', policy);
    validateObject('definition', definition);
    return this.#transport.putPolicy(policy, definition, this.#deadline(options));
  }

  /** A policy in force; `null`: there is none of the name. */
  async getPolicy(policy: string, options: CallOptions = {}): Promise<JsonObject | null> {
    validateText('policy', policy);
    return this.#transport.getPolicy(policy, this.#deadline(options));
  }

  /** Deletes a policy that was set at run time; `false`: there was none. */
  async deletePolicy(policy: string, options: CallOptions = {}): Promise<boolean> {
    validateText('policy', policy);
    return this.#transport.deletePolicy(policy, this.#deadline(options));
  }

  /** Ends connections. Calls that are under way fail. */
  close(): Promise<void> {
    return this.#transport.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #deadline({ deadlineMs = this.#deadlineMs }: CallOptions): number {
    validateMilliseconds('deadlineMs', deadlineMs);
    return deadlineMs;
  }

  async #decide(question: Question, ask: () => ReturnType<Transport['check']>): Promise<Decision> {
    validate(question);
    try {
      const answer = await ask();
      return readDecision(answer.body, answer.headers);
    } catch (error) {
      return madeUpDecision(question, this.#failMode(error));
    }
  }

  /** Whether to allow in place of a server that cannot be asked; other errors are thrown on. */
  #failMode(error: unknown): boolean {
    const isUnavailable = error instanceof WaterclockError && error.kind === 'unavailable';
    if (!isUnavailable || this.#onUnavailable === 'throw') throw error;
    return this.#onUnavailable === 'allow' && !error.deniedByPolicy;
  }

  #readReservation(body: JsonObject, decision: Decision, deadlineMs: number): Reservation {
    const held = body['reservation'];
    const settlement = {
      commit: (id: string, cost: Cost) => this.commit(id, cost, { deadlineMs }),
      cancel: (id: string) => this.cancel(id, { deadlineMs }),
    };
    if (!isObject(held)) return new Reservation(decision, null, null, settlement);
    const expiresInMs = Math.floor(Number(held['expires_in_us']) / 1000);
    return new Reservation(decision, String(held['id']), expiresInMs, settlement);
  }
}
