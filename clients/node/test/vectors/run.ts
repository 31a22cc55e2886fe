import assert from 'node:assert/strict';
import type { Charge, Client, Override, PolicyDefinition, ReportOptions } from '../../src/client.js';
import type { Cost } from '../../src/decision.js';
import type { Reservation } from '../../src/reservation.js';
import { WaterclockError } from '../../src/error.js';
import { expectDecision, expectSubset } from './expect.js';
import { onlyKnown, type Case, type JsonObject, type Step } from './table.js';

/** A client for an administrator, and one without a token. */
export interface Clients {
  readonly admin: Client;
  readonly anonymous: Client;
}

/** Reservations by the names that steps give them. */
type Reservations = Map<string, Reservation>;

/** Runs a case, step by step. */
export async function runCase({ steps }: Case, clients: Clients): Promise<void> {
  const reservations: Reservations = new Map();
  for (const step of steps) {
    for (let time = 0; time < Number(step['repeat'] ?? 1); time += 1) await runStep(step, clients, reservations);
  }
}

async function runStep(step: Step, clients: Clients, reservations: Reservations): Promise<void> {
  const { call, error, expect = {}, anonymous = false, repeat: _, ...given } = step;
  const client = anonymous ? clients.anonymous : clients.admin;
  const known = calls[call];
  assert.ok(known, `the table has an unknown call \`${call}\``);
  onlyKnown(`a step \`${call}\``, given, known.takes);
  const run = () => known.run(client, given as unknown as Arguments, expect as JsonObject, reservations);
  if (error === undefined) await run();
  else await assert.rejects(run, (cause) => cause instanceof WaterclockError && cause.kind === error, JSON.stringify(step));
}

/** The arguments of a step; each call takes some of them. */
interface Arguments {
  readonly policy: string;
  readonly key: string;
  readonly cost: Cost;
  readonly tier?: string;
  readonly factor?: number | string;
  readonly within_ms: number;
  readonly ttl_ms: number;
  readonly id?: string;
  readonly on_expiry?: 'release';
  readonly charges: readonly Charge[];
  readonly override: Override;
  readonly definition: PolicyDefinition;
  readonly reservation: string;
  readonly as?: string;
}

interface Call {
  readonly takes: readonly string[];
  run(client: Client, given: Arguments, expect: JsonObject, reservations: Reservations): Promise<void>;
}

const scaled = ['policy', 'key', 'cost', 'tier', 'factor'];

const calls: Record<string, Call> = {
  check: {
    takes: scaled,
    run: async (client, given, expect) => expectDecision(await client.check(given.policy, given.key, given), expect),
  },
  check_all: {
    takes: ['charges'],
    async run(client, given, expect) {
      onlyKnown('an expectation', expect, ['allowed', 'decisions']);
      const { allowed, decisions } = await client.checkAll(given.charges);
      assert.equal(allowed, expect['allowed']);
      const expected = expect['decisions'] as readonly JsonObject[];
      assert.equal(decisions.length, expected.length);
      decisions.forEach((decision, index) => expectDecision(decision, expected[index]!));
    },
  },
  peek: {
    takes: scaled,
    run: async (client, given, expect) => expectDecision(await client.peek(given.policy, given.key, given), expect),
  },
  wait: {
    takes: [...scaled, 'within_ms'],
    async run(client, given, expect) {
      const options = { ...given, withinMs: given.within_ms };
      expectDecision(await client.wait(given.policy, given.key, options), expect);
    },
  },
  refund: {
    takes: ['policy', 'key', 'cost'],
    run: async (client, given, expect) => expectDecision(await client.refund(given.policy, given.key, given), expect),
  },
  reset: {
    takes: ['policy', 'key'],
    run: async (client, given, expect) => expectDecision(await client.reset(given.policy, given.key), expect),
  },
  report: {
    takes: [...scaled, 'outcome'],
    async run(client, given, expect) {
      expectDecision(await client.report(given.policy, given.key, given as Arguments & ReportOptions), expect);
    },
  },
  reserve: {
    takes: [...scaled, 'ttl_ms', 'id', 'on_expiry', 'as'],
    async run(client, given, expect, reservations) {
      const options = { ...given, ttlMs: given.ttl_ms, onExpiry: given.on_expiry };
      const reservation = await client.reserve(given.policy, given.key, options);
      const { reservation: expected, ...ofDecision } = expect;
      expectDecision(reservation.decision, ofDecision);
      if (expected !== undefined) assert.equal(reservation.reserved, expected === true);
      if (given.as !== undefined) reservations.set(given.as, reservation);
    },
  },
  commit: {
    takes: ['reservation', 'cost'],
    async run(_client, given, expect, reservations) {
      await reservations.get(given.reservation)!.commit(given.cost);
      assert.deepEqual(expect, { ok: true });
    },
  },
  cancel: {
    takes: ['reservation'],
    async run(_client, given, expect, reservations) {
      await reservations.get(given.reservation)!.cancel();
      assert.deepEqual(expect, { ok: true });
    },
  },
  set_override: {
    takes: ['policy', 'key', 'override'],
    async run(client, given, expect) {
      await client.setOverride(given.policy, given.key, given.override);
      assert.deepEqual(expect, { ok: true });
    },
  },
  get_override: {
    takes: ['policy', 'key'],
    run: async (client, given, expect) => expectValue(await client.getOverride(given.policy, given.key), expect),
  },
  clear_override: {
    takes: ['policy', 'key'],
    async run(client, given, expect) {
      await client.clearOverride(given.policy, given.key);
      assert.deepEqual(expect, { ok: true });
    },
  },
  put_policy: {
    takes: ['policy', 'definition'],
    async run(client, given, expect) {
      await client.putPolicy(given.policy, given.definition);
      assert.deepEqual(expect, { ok: true });
    },
  },
  get_policy: {
    takes: ['policy'],
    run: async (client, given, expect) => expectValue(await client.getPolicy(given.policy), expect),
  },
  delete_policy: {
    takes: ['policy'],
    run: async (client, given, expect) => assert.deepEqual({ ok: await client.deletePolicy(given.policy) }, expect),
  },
};

function expectValue(value: JsonObject | null, expect: JsonObject): void {
  onlyKnown('an expectation', expect, ['value']);
  const expected = expect['value'];
  if (expected === null) assert.equal(value, null);
  else expectSubset(value, expected as JsonObject);
}
