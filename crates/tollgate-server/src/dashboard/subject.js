// The policy and key that the playground and the administration are about.

import { ask } from "./api.js";
import { by, make } from "./dom.js";

let policies = [];
const FIRST = { client_ip: "127.0.0.1" };

const chosen = () => policies.find(({ name }) => name === by("policy").value);
const inputs = () => [...by("key-fields").querySelectorAll("input")];

export async function loadPolicies() {
  const said = await ask("GET", "v1/policies").catch(() => null);
  if (!said?.ok) return;
  policies = said.json.policies;
  const before = by("policy").value;
  by("policy").replaceChildren(...policies.map(({ name }) => make("option", {}, name)));
  if (policies.some(({ name }) => name === before)) by("policy").value = before;
  if (by("policy").value !== before || inputs().length === 0) askForKey();
}

// An input for each field that forms the key, or one for the key itself.
export function askForKey(values = []) {
  const policy = chosen();
  const known = Object.fromEntries(inputs().map(({ name, value }) => [name, value]));
  const names = policy?.key?.length ? policy.key : ["key"];
  by("key-fields").replaceChildren(...names.map((name, at) => {
    const input = make("input", { name, autocomplete: "off", spellcheck: "false", dir: "auto" });
    input.value = values[at] ?? known[name] ?? FIRST[name] ?? "alice";
    return make("label", {}, name === "key" ? "Key" : name, input);
  }));
  const tiers = Object.keys(policy?.tiers ?? {});
  by("tier-label").hidden = tiers.length === 0;
  by("tier").replaceChildren(make("option", { value: "" }, "none"), ...tiers.map((tier) => make("option", {}, tier)));
}

export function choose(policy, key) {
  by("policy").value = policy;
  askForKey(key === undefined ? [] : valuesOf(key));
  by("playground").scrollIntoView();
  inputs()[0]?.focus();
}

// The values of a composed key, as answers show it: `5:alice,`, lengths in bytes.
function valuesOf(key) {
  if (!chosen()?.key?.length) return [key];
  const values = [];
  let bytes = new TextEncoder().encode(key);
  for (;;) {
    const colon = bytes.indexOf(58);
    if (colon < 0) return values;
    const end = colon + 1 + Number(new TextDecoder().decode(bytes.slice(0, colon)));
    values.push(new TextDecoder().decode(bytes.slice(colon + 1, end)));
    bytes = bytes.slice(end + 1);
  }
}

// As the body of a check.
export function subject() {
  const policy = chosen();
  const body = { policy: by("policy").value };
  if (policy?.key?.length) body.fields = Object.fromEntries(inputs().map(({ name, value }) => [name, value]));
  else body.key = inputs()[0]?.value ?? "";
  if (by("tier").value) body.tier = by("tier").value;
  return body;
}
