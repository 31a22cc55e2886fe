// Administration: a single key is inspected, reset, refunded, blocked, exempted, limited; a policy's keys are purged.

import { request, unreachable, problem } from "./api.js";
import { by, keyText, setText } from "./dom.js";
import { costOf, duration } from "./format.js";
import { isBlocked, showLevels } from "./levels.js";
import { subject } from "./subject.js";

const limits = () => by("custom").value.split(",").map((text) => text.trim()).filter(Boolean);

const ACTIONS = {
  inspect: ["GET", "", () => undefined, "Inspected"],
  reset: ["DELETE", "", () => undefined, "Reset"],
  grant: ["POST", "/grant", () => ({ cost: costOf(by("grant").value) }), "Refunded units to"],
  block: ["PUT", "/override", () => ({ block: true }), "Blocked"],
  exempt: ["PUT", "/override", () => ({ exempt: true }), "Exempted"],
  limits: ["PUT", "/override", () => ({ limits: limits() }), "Set a custom limit for"],
  clear: ["DELETE", "/override", () => undefined, "Cleared the override of"],
};

const EXCEPTIONS = { block: "It is blocked.", exempt: "It is exempt.", override: "It has a custom limit." };

// The key as the server writes it. Only the server knows how several fields form one key.
async function keyOf(about) {
  if (about.key !== undefined) return about.key;
  const response = await request("POST", "v1/peek", about);
  if (!response.ok) throw new Error(problem(response));
  return response.json.key;
}

async function perform(action) {
  const [method, path, body, done] = ACTIONS[action];
  const about = subject();
  const key = await keyOf(about);
  // A URL path cannot end in these.
  if (["", ".", ".."].includes(key)) throw new Error("An empty key, `.` and `..` cannot be addressed in a URL.");
  const url = `v1/policies/${encodeURIComponent(about.policy)}/keys/${encodeURIComponent(key)}${path}`;
  const response = await request(method, url, body());
  if (!response.ok) throw new Error(problem(response));
  showLevels(response.json, about);
  const { remaining, limit, exception, reset_after_us: reset } = response.json;
  // Limits without units have no `limit`.
  const of = limit === null ? "" : ` of ${limit}`;
  const left = remaining === null || isBlocked(response.json) ? "" : ` It has ${remaining}${of} left${reset ? `, full again in ${duration(reset)}` : ""}.`;
  by("admin-result").replaceChildren(`${done} `, keyText(key), `.${left}${exception ? ` ${EXCEPTIONS[exception]}` : ""}`);
}

// Forgets every key of the policy, whose name must have been typed: there is no way back.
async function purge() {
  const { policy } = subject();
  if (by("purge").value !== policy) throw new Error(`Type the policy's name, ${policy}, to purge all its keys.`);
  const response = await request("DELETE", `v1/policies/${encodeURIComponent(policy)}/keys`);
  if (!response.ok) throw new Error(problem(response));
  by("purge").value = "";
  setText(by("admin-result"), `Purged ${response.json.purged} keys of ${policy}. They start fresh.`);
}

async function show(action) {
  setText(by("admin-result"), "…");
  try {
    await action();
  } catch (error) {
    setText(by("admin-result"), error instanceof TypeError ? unreachable(error) : error.message);
  }
}

export function startAdministration() {
  by("admin").addEventListener("submit", (event) => event.preventDefault());
  by("admin").addEventListener("click", async (event) => {
    const action = event.target.dataset?.do;
    if (!action || (action === "grant" && !by("grant").reportValidity())) return;
    await show(() => perform(action));
  });
  by("purge-keys").addEventListener("click", () => show(purge));
}
