// Asking the server. The token is kept in memory and nowhere else.

let token = "";

export const hasToken = () => token !== "";
export function useToken(text) { token = text; }

export function authorized(headers = {}) {
  return token ? { ...headers, authorization: `Bearer ${token}` } : headers;
}

// What the server says: status, header fields and JSON. Fails only if nobody answers.
export async function ask(method, path, body) {
  const headers = authorized({ accept: "application/json" });
  const mine = token;
  const said = await fetch(path, {
    method, headers, cache: "no-store", redirect: "error",
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  let json = {};
  try { json = await said.json(); } catch { /* Whatever it is, the status says enough. */ }
  // What one token may read is not shown to whoever has forgotten it.
  if (token !== mine) throw new Error("The token has changed.");
  return { status: said.status, ok: said.ok, headers: said.headers, json };
}

// A problem as one sentence, with what to do about it.
export function problem({ status, json }) {
  const detail = json.detail ?? `the server answered with status ${status}`;
  if (status === 401 || status === 403) {
    return hasToken() ? `${detail}.` : `${detail}. Type it at the top of the page; the configuration names tokens under [server] auth.`;
  }
  return `${detail}.`;
}

export const noAnswer = (error) => `The server does not answer (${error.message}).`;
