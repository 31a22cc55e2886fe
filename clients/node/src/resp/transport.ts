import type { ConnectionOptions } from 'node:tls';
import { validateBound, validateToken } from '../arguments.js';
import type { Cost, JsonObject, Question } from '../decision.js';
import { WaterclockError } from '../error.js';
import type { Answer, Factor, Outcome, ReserveQuestion, ScaledQuestion, Transport } from '../transport.js';
import { readAddress } from './address.js';
import { ErrorReply, type Reply } from './parse.js';
import { Pool } from './pool.js';
import { readAnswer, readAnswers, readError, readJson } from './replies.js';

export interface RespOptions {
  readonly url: string;
  /** Used in place of a token in the URL. */
  readonly token?: string | undefined;
  /** Connections that all commands share (1); commands are pipelined. */
  readonly connections?: number | undefined;
  /** Calls of `wait` at a time (64), each on a connection of its own; the others queue. */
  readonly waits?: number | undefined;
  /** Calls that may be under way or queued (10,000); more fail as unavailable. */
  readonly maxOutstanding?: number | undefined;
  /** For `rediss://`: options of `tls.connect`, such as `ca`. */
  readonly tls?: ConnectionOptions | undefined;
}

/** The server's Redis protocol, over TCP or TLS. */
export class RespTransport implements Transport {
  readonly #pool: Pool;
  readonly #server: string;

  constructor(options: RespOptions) {
    const inUrl = readAddress(options.url);
    const address = { ...inUrl, token: options.token ?? inUrl.token };
    if (address.token !== undefined) validateToken(address.token);
    this.#server = address.shown;
    this.#pool = new Pool({
      address,
      tls: options.tls,
      connections: validateBound('connections', options.connections ?? 1),
      waits: validateBound('waits', options.waits ?? 64),
      maxOutstanding: validateBound('maxOutstanding', options.maxOutstanding ?? 10_000),
      now: () => performance.now(),
    });
  }

  check(question: ScaledQuestion, deadlineMs: number): Promise<Answer> {
    const { policy, key, cost } = question;
    return this.#decide(['RL.CHECK', policy, key, ...optionalCost(cost), ...scale(question), 'JSON'], deadlineMs);
  }

  async checkAll(questions: readonly ScaledQuestion[], deadlineMs: number): Promise<readonly Answer[]> {
    const [first, ...others] = questions;
    if (first === undefined) throw new WaterclockError('invalid', 'there are no checks; give at least one');
    if (others.some(({ tier, factor }) => tier !== first.tier || String(factor) !== String(first.factor))) {
      throw new WaterclockError(
        'invalid',
        'checks of several tiers or factors cannot be sent together in the Redis protocol; use HTTP for this call',
      );
    }
    const lines = questions.flatMap(({ policy, key, cost }) => [policy, key, writeCost(cost)]);
    const command = ['RL.CHECKS', String(questions.length), ...lines, ...scale(first), 'JSON'];
    return readAnswers(await this.#command(command, deadlineMs), this.#server);
  }

  peek(question: ScaledQuestion, deadlineMs: number): Promise<Answer> {
    const { policy, key, cost } = question;
    return this.#decide(['RL.PEEK', policy, key, ...optionalCost(cost), ...scale(question), 'JSON'], deadlineMs);
  }

  async wait(question: ScaledQuestion, withinMs: number, deadlineMs: number): Promise<Answer> {
    const { policy, key, cost } = question;
    const started = performance.now();
    const command = () => {
      // The time in the queue of this client counts.
      const left = Math.max(Math.ceil(withinMs - (performance.now() - started)), 0);
      return ['RL.WAIT', policy, key, writeCost(cost), String(left), ...scale(question), 'JSON'];
    };
    return readAnswer(this.#unlessError(await this.#pool.wait(command, deadlineMs)), this.#server);
  }

  refund({ policy, key, cost }: Question, deadlineMs: number): Promise<Answer> {
    return this.#decide(['RL.REFUND', policy, key, writeCost(cost), 'JSON'], deadlineMs);
  }

  reset(policy: string, key: string, deadlineMs: number): Promise<Answer> {
    return this.#decide(['RL.RESET', policy, key, 'JSON'], deadlineMs);
  }

  report(question: ScaledQuestion, outcome: Outcome | undefined, deadlineMs: number): Promise<Answer> {
    const { policy, key, cost } = question;
    return this.#decide(['RL.REPORT', policy, key, outcome ?? writeCost(cost), ...scale(question), 'JSON'], deadlineMs);
  }

  reserve(question: ReserveQuestion, deadlineMs: number): Promise<Answer> {
    const { policy, key, cost, ttlMs, id, onExpiry } = question;
    const options = [...scale(question), ...(id === undefined ? [] : ['ID', id]), ...(onExpiry ? ['RELEASE'] : [])];
    const ttl = String(Math.ceil(ttlMs));
    return this.#decide(['RL.RESERVE', policy, key, writeCost(cost), ttl, ...options, 'JSON'], deadlineMs);
  }

  async commit(id: string, cost: Cost, deadlineMs: number): Promise<void> {
    await this.#command(['RL.COMMIT', id, writeCost(cost)], deadlineMs);
  }

  async cancel(id: string, deadlineMs: number): Promise<void> {
    await this.#command(['RL.CANCEL', id], deadlineMs);
  }

  async setOverride(policy: string, key: string, override: JsonObject, deadlineMs: number): Promise<void> {
    await this.#command(['RL.OVERRIDE', policy, key, 'SET', JSON.stringify(override)], deadlineMs);
  }

  async getOverride(policy: string, key: string, deadlineMs: number): Promise<JsonObject | null> {
    return this.#jsonOrNull(['RL.OVERRIDE', policy, key, 'GET'], deadlineMs);
  }

  async clearOverride(policy: string, key: string, deadlineMs: number): Promise<void> {
    await this.#command(['RL.OVERRIDE', policy, key, 'CLEAR'], deadlineMs);
  }

  async putPolicy(policy: string, definition: JsonObject, deadlineMs: number): Promise<void> {
    await this.#command(['RL.POLICY', policy, 'SET', JSON.stringify(definition)], deadlineMs);
  }

  getPolicy(policy: string, deadlineMs: number): Promise<JsonObject | null> {
    return this.#jsonOrNull(['RL.POLICY', policy, 'GET'], deadlineMs);
  }

  async deletePolicy(policy: string, deadlineMs: number): Promise<boolean> {
    return (await this.#command(['RL.POLICY', policy, 'DEL'], deadlineMs)) === 1;
  }

  async close(): Promise<void> {
    this.#pool.close();
  }

  async #decide(command: readonly string[], deadlineMs: number): Promise<Answer> {
    return readAnswer(await this.#command(command, deadlineMs), this.#server);
  }

  async #jsonOrNull(command: readonly string[], deadlineMs: number): Promise<JsonObject | null> {
    const reply = await this.#command(command, deadlineMs);
    return reply === null ? null : readJson(reply, this.#server);
  }

  async #command(command: readonly string[], deadlineMs: number): Promise<Reply> {
    return this.#unlessError(await this.#pool.command(command, deadlineMs));
  }

  #unlessError(reply: Reply): Reply {
    if (reply instanceof ErrorReply) throw readError(reply, this.#server);
    return reply;
  }
}

/** Units are written `requests=1,tokens=800`. */
function writeCost(cost: Cost = 1): string {
  if (typeof cost === 'number') return String(cost);
  return Object.entries(cost)
    .map(([unit, count]) => `${unit}=${count}`)
    .join(',');
}

function optionalCost(cost: Cost | undefined): readonly string[] {
  return cost === undefined ? [] : [writeCost(cost)];
}

function scale({ tier, factor }: { tier?: string | undefined; factor?: Factor | undefined }): readonly string[] {
  return [...(tier === undefined ? [] : ['TIER', tier]), ...(factor === undefined ? [] : ['FACTOR', String(factor)])];
}
