import assert from 'node:assert/strict';

/** Sends a request as a user. */
export function get(url: string, user: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(url, { headers: { ...headers, 'x-user': user, connection: 'close' } });
}

export async function expectPassed(response: Response, remaining: number, policy = 'two'): Promise<void> {
  assert.equal(response.status, 200, await response.text());
  assert.match(response.headers.get('ratelimit') ?? '', new RegExp(`^"${policy}.${policy}";r=${remaining};`));
  assert.match(response.headers.get('ratelimit-policy') ?? '', new RegExp(`^"${policy}.${policy}";q=`));
}

export async function expectNotCounted(response: Response): Promise<void> {
  assert.equal(response.status, 200, await response.text());
  assert.equal(response.headers.get('ratelimit'), null);
}

export async function expectRefused(response: Response): Promise<void> {
  assert.equal(response.status, 429);
  assert.match(response.headers.get('content-type') ?? '', /^application\/problem\+json/);
  assert.ok(Number(response.headers.get('retry-after')) > 0);
  const problem = (await response.json()) as Record<string, unknown>;
  assert.equal(problem['status'], 429);
  assert.equal(problem['title'], 'Too Many Requests');
  assert.match(String(problem['detail']), /try again in \d+ s/);
}

export async function expectUnavailable(response: Response): Promise<void> {
  assert.equal(response.status, 503);
  assert.match(response.headers.get('content-type') ?? '', /^application\/problem\+json/);
  assert.equal(((await response.json()) as Record<string, unknown>)['title'], 'Service Unavailable');
}
