// Requests to the server. The token is kept in memory only.

let token = "";

export const hasToken = () => token !== "";
export function useToken(text) { token = text; }

export function authorized(headers = {}) {
  return token ? { ...headers, authorization: `Bearer ${token}` } : headers;
}

// Returns status, headers and JSON. Throws only if there is no response.
export async function request(method, path, body) {
  const headers = authorized({ accept: "application/json" });
  const mine = token;
  const response = await fetch(path, {
    method, headers, cache: "no-store", redirect: "error",
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  let json = {};
  try { json = await response.json(); } catch { /* Not JSON: the status is enough. */ }
  // Do not show what was read with a token that has been removed meanwhile.
  if (token !== mine) throw new Error("The token has changed.");
  return { status: response.status, ok: response.ok, headers: response.headers, json };
}

// An error response as one sentence, with what to do about it.
export function problem({ status, json }) {
  const detail = json.detail ?? `the server answered with status ${status}`;
  if (status === 401 || status === 403) {
    return hasToken() ? `${detail}.` : `${detail}. Enter it at the top of the page; tokens are configured under [server] auth, and the demonstration prints one when it starts.`;
  }
  return `${detail}.`;
}

export const unreachable = (error) => `Server unreachable (${error.message}).`;
