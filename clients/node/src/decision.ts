import { WaterclockError } from './error.js';

/** How much a call costs: a number, or units by name for a policy that counts several. */
export type Cost = number | Readonly<Record<string, number>>;

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type JsonObject = { readonly [name: string]: Json };

/** Response header fields: lower-case names and their values. */
export type HeaderFields = Readonly<Record<string, string>>;

/** One limit of a policy, as it stands after the call. */
export interface LimitState {
  readonly name: string;
  readonly allowed: boolean;
  /** `null`: the limit counts no units. */
  readonly limit: number | null;
  readonly remaining: number | null;
  readonly retryAfterMs: number | null;
  readonly nextUnitMs: number | null;
  readonly resetAfterMs: number;
}

/** The decision as Sharkey has it; only of policies with `headers = "legacy"`. */
export interface LimitInfo {
  readonly blocked: boolean;
  readonly remaining: number;
  readonly resetSec: number | null;
  readonly resetMs: number | null;
  readonly fullResetSec: number;
  readonly fullResetMs: number;
}

/** What the server decided. Times are milliseconds, rounded up. Numbers are exact up to 2^53. */
export interface Decision {
  /** Whether the whole cost was admitted. */
  readonly allowed: boolean;
  /** How much was admitted: less than `cost` with `mode = "partial"`. */
  readonly granted: Cost;
  /** The smallest of all limits; `null`: unbounded. */
  readonly limit: number | null;
  /** The least that is left of any limit; `null`: unbounded. */
  readonly remaining: number | null;
  /** When the same cost passes: 0 if it was allowed, `null` if it never passes. */
  readonly retryAfterMs: number | null;
  /** When `remaining` grows; `null`: it is at its maximum. */
  readonly nextUnitMs: number | null;
  /** When the same cost passes next if nothing else happens; `null`: never. */
  readonly nextSameMs: number | null;
  /** When nothing is used any more. */
  readonly resetAfterMs: number;
  /** Names of the limits that refused. */
  readonly refusedBy: readonly string[];
  readonly limits: readonly LimitState[];
  /** Only with `mode = "count-refusals"`: the limit minus every attempt, refused ones included. */
  readonly counter?: number;
  readonly limitInfo?: LimitInfo;
  readonly policy: string;
  readonly key: string;
  readonly cost: Cost;
  /** What decided: `authoritative` is the store; `unavailable`, this client, because the server did not answer. */
  readonly source: string;
  /** The response header fields of the policy's style, to pass on to the caller. */
  readonly headers: HeaderFields;
  /** The server's JSON, with fields that this version of the client does not know. */
  readonly raw: JsonObject;
}

/** Several checks, all admitted or none. */
export interface Decisions {
  readonly allowed: boolean;
  readonly decisions: readonly Decision[];
}

/** What a call asks about. */
export interface Question {
  readonly policy: string;
  readonly key: string;
  readonly cost?: Cost | undefined;
}

/** Reads the server's JSON. A field that is missing or has another type means that this is no Waterclock server. */
export function readDecision(value: Json, headers: HeaderFields): Decision {
  const raw = object(value, 'a decision');
  const counter = raw['counter'];
  const limitInfo = raw['limit_info'];
  return {
    allowed: boolean(raw, 'allowed'),
    granted: cost(raw, 'granted'),
    limit: numberOrNull(raw, 'limit'),
    remaining: numberOrNull(raw, 'remaining'),
    retryAfterMs: milliseconds(raw, 'retry_after_us'),
    nextUnitMs: milliseconds(raw, 'next_unit_us'),
    nextSameMs: milliseconds(raw, 'next_same_us'),
    resetAfterMs: milliseconds(raw, 'reset_after_us') ?? 0,
    refusedBy: array(raw, 'refused_by').map(String),
    limits: array(raw, 'limits').map(readLimit),
    ...(typeof counter === 'number' && { counter }),
    ...(isObject(limitInfo) && { limitInfo: limitInfo as unknown as LimitInfo }),
    policy: text(raw, 'policy'),
    key: text(raw, 'key'),
    cost: cost(raw, 'cost'),
    source: text(raw, 'source'),
    headers,
    raw,
  };
}

/** The decision that the fail mode makes up while the server cannot be asked. */
export function madeUpDecision(question: Question, allowed: boolean): Decision {
  const asked = question.cost ?? 1;
  const nothing = typeof asked === 'number' ? 0 : mapUnits(asked, () => 0);
  return {
    allowed,
    granted: allowed ? asked : nothing,
    limit: null,
    remaining: null,
    retryAfterMs: allowed ? 0 : null,
    nextUnitMs: null,
    nextSameMs: allowed ? 0 : null,
    resetAfterMs: 0,
    refusedBy: [],
    limits: [],
    policy: question.policy,
    key: question.key,
    cost: asked,
    source: 'unavailable',
    headers: {},
    raw: {},
  };
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function readLimit(value: Json): LimitState {
  const raw = object(value, 'a limit');
  return {
    name: text(raw, 'name'),
    allowed: boolean(raw, 'allowed'),
    limit: numberOrNull(raw, 'limit'),
    remaining: numberOrNull(raw, 'remaining'),
    retryAfterMs: milliseconds(raw, 'retry_after_us'),
    nextUnitMs: milliseconds(raw, 'next_unit_us'),
    resetAfterMs: milliseconds(raw, 'reset_after_us') ?? 0,
  };
}

function mapUnits(units: Readonly<Record<string, number>>, map: (count: number) => number): Record<string, number> {
  return Object.fromEntries(Object.entries(units).map(([unit, count]) => [unit, map(count)]));
}

function object(value: Json, what: string): JsonObject {
  return isObject(value) ? value : unexpected(`${what} is no object`);
}

function boolean(raw: JsonObject, name: string): boolean {
  const value = raw[name];
  return typeof value === 'boolean' ? value : wrongField(name);
}

function text(raw: JsonObject, name: string): string {
  const value = raw[name];
  return typeof value === 'string' ? value : wrongField(name);
}

function numberOrNull(raw: JsonObject, name: string): number | null {
  const value = raw[name];
  return typeof value === 'number' || value === null ? value : wrongField(name);
}

function milliseconds(raw: JsonObject, name: string): number | null {
  const microseconds = numberOrNull(raw, name);
  return microseconds === null ? null : Math.ceil(microseconds / 1000);
}

function array(raw: JsonObject, name: string): readonly Json[] {
  const value = raw[name];
  return Array.isArray(value) ? value : wrongField(name);
}

function cost(raw: JsonObject, name: string): Cost {
  const value = raw[name];
  return typeof value === 'number' || isObject(value) ? (value as Cost) : wrongField(name);
}

function wrongField(name: string): never {
  return unexpected(`there is no field \`${name}\` of the expected type`);
}

/** The answer is none that Waterclock gives. */
export function unexpected(what: string): never {
  throw new WaterclockError(
    'unavailable',
    `the answer is not understood: ${what}; check that the URL is that of a Waterclock server`,
  );
}
