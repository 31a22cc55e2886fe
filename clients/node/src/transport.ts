import type { Cost, HeaderFields, JsonObject, Question } from './decision.js';

/** A number or an exact decimal such as `"0.1"`: 2 halves what is admitted, 0.5 doubles it, 0 disables the limits. */
export type Factor = number | string;

/** A question with what scales the limits of its call. */
export interface ScaledQuestion extends Question {
  readonly tier?: string | undefined;
  readonly factor?: Factor | undefined;
}

export interface ReserveQuestion extends ScaledQuestion {
  readonly ttlMs: number;
  readonly id?: string | undefined;
  readonly onExpiry?: 'release' | undefined;
}

export type Outcome = 'ok' | 'error';

/** The JSON of one decision, and the header fields that go with it. */
export interface Answer {
  readonly body: JsonObject;
  readonly headers: HeaderFields;
}

/**
 * One way to reach a server. Every call rejects with a `WaterclockError`, at the latest when `deadlineMs` has passed,
 * and sends its request at most once.
 */
export interface Transport {
  check(question: ScaledQuestion, deadlineMs: number): Promise<Answer>;
  checkAll(questions: readonly ScaledQuestion[], deadlineMs: number): Promise<readonly Answer[]>;
  peek(question: ScaledQuestion, deadlineMs: number): Promise<Answer>;
  wait(question: ScaledQuestion, withinMs: number, deadlineMs: number): Promise<Answer>;
  refund(question: Question, deadlineMs: number): Promise<Answer>;
  reset(policy: string, key: string, deadlineMs: number): Promise<Answer>;
  report(question: ScaledQuestion, outcome: Outcome | undefined, deadlineMs: number): Promise<Answer>;
  /** The body has `reservation` if units are reserved. */
  reserve(question: ReserveQuestion, deadlineMs: number): Promise<Answer>;
  commit(id: string, cost: Cost, deadlineMs: number): Promise<void>;
  cancel(id: string, deadlineMs: number): Promise<void>;
  setOverride(policy: string, key: string, override: JsonObject, deadlineMs: number): Promise<void>;
  getOverride(policy: string, key: string, deadlineMs: number): Promise<JsonObject | null>;
  clearOverride(policy: string, key: string, deadlineMs: number): Promise<void>;
  putPolicy(policy: string, definition: JsonObject, deadlineMs: number): Promise<void>;
  getPolicy(policy: string, deadlineMs: number): Promise<JsonObject | null>;
  deletePolicy(policy: string, deadlineMs: number): Promise<boolean>;
  /** Ends connections. Calls that are under way fail. */
  close(): Promise<void>;
}
