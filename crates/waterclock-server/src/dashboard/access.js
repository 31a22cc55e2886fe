// What the token may do: controls that it cannot use are hidden and explained. Signing in says what is wrong.

import { hasToken, request, useToken } from "./api.js";
import { by, setText } from "./dom.js";

let roles = [];
export const may = (role) => roles.includes(role);

const WHERE = "Tokens are configured under [server] auth; the demonstration prints one when it starts.";

// Shows controls by the role that they need.
function showControls(hasTokens) {
  for (const element of document.querySelectorAll("[data-needs]")) element.hidden = !may(element.dataset.needs);
  for (const element of document.querySelectorAll("[data-lacks]")) element.hidden = may(element.dataset.lacks);
  const sign = !hasTokens ? "This server has no administrator: it has no tokens. Add one with the role admin under [server] auth."
    : hasToken() ? "This token lacks the role admin, so keys can be inspected and not changed."
    : "Sign in with a token of the role admin to change keys. The demonstration prints one when it starts.";
  setText(by("admin-lacks"), sign);
  by("sign-in-open").hidden = hasToken() || !hasTokens;
  by("token-clear").hidden = !hasToken();
  setText(by("role"), hasToken() && roles.length ? `Signed in: ${roles.join(", ")}` : "");
}

// Asks what the caller may do. Returns whether it may read.
export async function learnRoles() {
  const response = await request("GET", "v1/access").catch(() => null);
  if (!response) return may("read");
  roles = response.ok ? response.json.roles : [];
  showControls(response.ok ? response.json.tokens : true);
  if (may("read")) {
    by("main").hidden = false;
    by("sign-in").hidden = true;
    return true;
  }
  const why = response.ok ? `This token has the ${roles.length > 1 ? "roles" : "role"} ${roles.join(", ") || "none"}; the dashboard needs read.`
    : hasToken() ? `The server does not know this token. Check that it was copied whole. ${WHERE}`
    : response.status === 401 ? `This server needs a token with the role read. ${WHERE}`
    : `${response.json.detail ?? `The server answered with status ${response.status}`}.`;
  askForToken(why);
  by("main").hidden = true;
  return false;
}

function askForToken(why) {
  setText(by("sign-in-error"), why);
  by("sign-in").hidden = false;
}

export function startAccess(onToken) {
  by("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const token = by("token").value.trim();
    if (!token) return askForToken("Enter a token first.");
    by("token").value = "";
    useToken(token);
    onToken(token);
  });
  by("sign-in-open").addEventListener("click", () => {
    by("sign-in").hidden = false;
    setText(by("sign-in-error"), "Checks and reads need no token here; administration does.");
    by("token").focus();
  });
  by("sign-in-close").addEventListener("click", () => { by("sign-in").hidden = true; });
  by("token-clear").addEventListener("click", () => { useToken(""); onToken(""); });
}
