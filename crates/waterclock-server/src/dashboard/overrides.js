// Overrides of single keys: as text, and the first page of a policy's.

import { problem, request, unreachable } from "./api.js";
import { by, keyParts, make, setText } from "./dom.js";
import { duration, limitText } from "./format.js";
import { choose, fieldsOf, subject } from "./subject.js";

const SHOWN = 20;

function ruleText({ limits, factor, tier, block }) {
  if (limits) return limits.map(limitText).join(" and ");
  if (factor !== undefined) return `factor ${factor}`;
  if (tier !== undefined) return `tier ${tier}`;
  return block ? "blocked" : "exempt";
}

export function overrideText(override) {
  const left = override.expires_in_us;
  return `${ruleText(override)}${left === undefined ? "" : `, for another ${duration(left)}`}`;
}

// A link that chooses the key, where it can be typed.
export function overriddenKey(policy, { key, key_hex: hex }) {
  if (key === undefined) return `0x${hex}`;
  return make("button", { type: "button", class: "link", onclick: () => choose(policy, key) }, keyParts(key, fieldsOf(policy, key)));
}

export async function showOverrides() {
  if (!by("overrides").open) return;
  const { policy } = subject();
  const list = by("override-list");
  try {
    const response = await request("GET", `v1/policies/${encodeURIComponent(policy)}/overrides?count=${SHOWN}`);
    if (!response.ok) throw new Error(problem(response));
    const { overrides, next } = response.json;
    list.replaceChildren(...overrides.map((one) => make("li", {}, overriddenKey(policy, one), ` ${overrideText(one)}`)));
    setText(by("override-note"), next ? `The first ${SHOWN}. List all with waterclock override list ${policy}.`
      : overrides.length ? "" : `No key of ${policy} has an override.`);
  } catch (error) {
    list.replaceChildren();
    setText(by("override-note"), error instanceof TypeError ? unreachable(error) : error.message);
  }
}

export function clearOverrides() {
  by("override-list").replaceChildren();
  setText(by("override-note"), "");
}
