// Administration: a single key is inspected, reset, refunded, blocked, exempted, limited, scaled; a policy's keys are
// purged.

import { request, unreachable, problem } from "./api.js";
import { by, keyText, setText } from "./dom.js";
import { costOf, duration } from "./format.js";
import { isBlocked, showLevels } from "./levels.js";
import { overrideText, showOverrides } from "./overrides.js";
import { subject } from "./subject.js";

const limits = () => by("custom").value.split(",").map((text) => text.trim()).filter(Boolean);

// A rule, and for how long it applies.
function override(rule) {
  const expires = by("expires").value.trim();
  return expires ? { ...rule, expires_in: expires } : rule;
}

const ACTIONS = {
  inspect: ["GET", "", () => undefined, "Inspected"],
  reset: ["DELETE", "", () => undefined, "Reset"],
  grant: ["POST", "/grant", () => ({ cost: costOf(by("grant").value) }), "Refunded units to"],
  block: ["PUT", "/override", () => override({ block: true }), "Blocked"],
  exempt: ["PUT", "/override", () => override({ exempt: true }), "Exempted"],
  limits: ["PUT", "/override", () => override({ limits: limits() }), "Set a custom limit for"],
  factor: ["PUT", "/override", () => override({ factor: by("factor").value.trim() }), "Set a factor for"],
  clear: ["DELETE", "/override", () => undefined, "Cleared the override of"],
};

const EXCEPTIONS = { block: "It is blocked.", exempt: "It is exempt.", override: "It has an override." };

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
  const { remaining, limit, exception, override: kept, reset_after_us: reset } = response.json;
  // Limits without units have no `limit`.
  const of = limit === null ? "" : ` of ${limit}`;
  const left = remaining === null || isBlocked(response.json) ? "" : ` It has ${remaining}${of} left${reset ? `, full again in ${duration(reset)}` : ""}.`;
  by("admin-result").replaceChildren(`${done} `, keyText(key), `.${left}${exception ? ` ${EXCEPTIONS[exception]}` : ""}`);
  setText(by("override"), kept ? `Override: ${overrideText(kept)}` : "");
  await showOverrides();
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
  setText(by("override"), "");
  try {
    await action();
  } catch (error) {
    setText(by("admin-result"), error instanceof TypeError ? unreachable(error) : error.message);
  }
}

export function startAdministration(onChanged) {
  by("admin").addEventListener("submit", (event) => event.preventDefault());
  by("admin").addEventListener("click", async (event) => {
    const action = event.target.dataset?.do;
    if (!action || (action === "grant" && !by("grant").reportValidity())) return;
    await show(() => perform(action));
    if (action !== "inspect") onChanged();
  });
  by("purge-keys").addEventListener("click", () => show(purge));
  by("overrides").addEventListener("toggle", showOverrides);
  by("policy").addEventListener("change", showOverrides);
}
