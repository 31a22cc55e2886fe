import { readFileSync } from 'node:fs';
import type { JsonObject, Json } from '../../src/decision.js';

// Seen from build/test/vectors, where this file is when it runs.
const CLIENTS = new URL('../../../../', import.meta.url);

/** The configuration of the server that all vectors run on. */
export const configuration = readFileSync(new URL('vectors.toml', CLIENTS), 'utf8');

export interface Case {
  readonly name: string;
  readonly transports?: readonly string[];
  readonly steps: readonly Step[];
}

export type Step = JsonObject & { readonly call: string };

interface Table {
  readonly admin_token: string;
  readonly check_token: string;
  readonly cases: readonly Case[];
}

export const table: Table = JSON.parse(readFileSync(new URL('vectors.json', CLIENTS), 'utf8')) as Table;

/** Fails on a name that this suite does not know, so that nothing in the table is skipped by mistake. */
export function onlyKnown(what: string, object: object, known: readonly string[]): void {
  for (const name of Object.keys(object)) {
    if (!known.includes(name)) throw new Error(`${what} has an unknown field \`${name}\`: ${JSON.stringify(object)}`);
  }
}

onlyKnown('the table', table, ['admin_token', 'check_token', 'cases']);
for (const each of table.cases) onlyKnown('a case', each, ['name', 'transports', 'steps']);

export type { Json, JsonObject };
