import { BoundedMap } from '../bounded-map.js';

/** What a factor depends on: a user, or an object that has its id. */
export interface SharkeyUser {
  readonly id: string;
}

export type FactorOf = (user: SharkeyUser | null) => number | Promise<number>;

const LIFETIME_MS = 60_000;
const MAX_USERS = 10_000;

interface Entry {
  readonly factor: Promise<number>;
  readonly until: number;
}

/** Remembers factors for a minute. Concurrent calls for a user ask once. */
export class FactorCache {
  readonly #factorOf: FactorOf;
  readonly #now: () => number;
  readonly #entries = new BoundedMap<string | null, Entry>(MAX_USERS);

  constructor(factorOf: FactorOf, now: () => number = () => performance.now()) {
    this.#factorOf = factorOf;
    this.#now = now;
  }

  get(user: SharkeyUser | null): Promise<number> {
    const id = user?.id ?? null;
    const known = this.#entries.get(id);
    if (known !== undefined && this.#now() < known.until) return known.factor;
    const factor = Promise.resolve(user).then(this.#factorOf);
    const entry = { factor, until: this.#now() + LIFETIME_MS };
    this.#entries.set(id, entry);
    factor.catch(() => {
      if (this.#entries.get(id) === entry) this.#entries.delete(id);
    });
    return factor;
  }
}
