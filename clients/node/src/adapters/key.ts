import { createHash } from 'node:crypto';

const MAX_KEY_BYTES = 1024;

/** A key that the server accepts: longer ones are replaced by their hash. */
export function boundedKey(key: string): string {
  if (Buffer.byteLength(key) <= MAX_KEY_BYTES) return key;
  return `sha256:${createHash('sha256').update(key).digest('hex')}`;
}

/** The key of an actor for a resource. Slashes of the actor are escaped, so no two pairs share a key. */
export function actorKey(actor: string, resource: string): string {
  const escaped = actor.replaceAll('%', '%25').replaceAll('/', '%2F');
  return boundedKey(`${escaped}/${resource}`);
}
