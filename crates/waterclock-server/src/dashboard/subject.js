// The policy and key that the playground and the administration act on.

import { request } from "./api.js";
import { by, make } from "./dom.js";

let policies = [];
const FIRST = { client_ip: "127.0.0.1", path: "/" };

const chosen = () => policies.find(({ name }) => name === by("policy").value);
const inputs = () => [...by("key-fields").querySelectorAll("input")];

// Loads the policies in force; false if that failed.
export async function loadPolicies() {
  const response = await request("GET", "v1/policies").catch(() => null);
  if (!response?.ok) return false;
  policies = response.json.policies;
  const before = by("policy").value;
  by("policy").replaceChildren(...policies.map(({ name }) => make("option", {}, name)));
  if (policies.some(({ name }) => name === before)) by("policy").value = before;
  // A reload may have changed the fields that form the key.
  showKeyFields();
  return true;
}

// A policy in force; undefined for one that is not listed.
export const policyOf = (name) => policies.find((policy) => policy.name === name);
export const limitsOf = (name) => policyOf(name)?.limits;
export const isEmpty = () => policies.length === 0;

// A body for the first check of the first policy.
export function firstBody() {
  const policy = policies[0];
  const value = (name) => FIRST[name] ?? "alice";
  return policy.key?.length ? { policy: policy.name, fields: Object.fromEntries(policy.key.map((name) => [name, value(name)])) }
    : { policy: policy.name, key: "alice" };
}

// The fields of a key by name; undefined if it has none.
export function fieldsOf(name, key) {
  const fields = policyOf(name)?.key;
  const values = fields?.length ? valuesOf(name, key) : null;
  return values ? Object.fromEntries(fields.map((field, at) => [field, values[at]])) : undefined;
}

export function clearPolicies() {
  policies = [];
  for (const id of ["policy", "key-fields", "tier"]) by(id).replaceChildren();
  by("tier-label").hidden = true;
}

// An input for each field that forms the key, or one for the key itself.
export function showKeyFields(values = []) {
  const policy = chosen();
  const known = Object.fromEntries(inputs().map(({ name, value }) => [name, value]));
  const names = policy?.key?.length ? policy.key : ["key"];
  // Keep the inputs, and what is being typed, unless the fields have changed.
  if (JSON.stringify(names) !== JSON.stringify(inputs().map(({ name }) => name))) {
    by("key-fields").replaceChildren(...names.map((name) => make("label", {}, name === "key" ? "Key" : name,
      make("input", { name, autocomplete: "off", spellcheck: "false", dir: "auto" }))));
  }
  inputs().forEach((input, at) => { input.value = values[at] ?? known[input.name] ?? FIRST[input.name] ?? "alice"; });
  const tiers = Object.keys(policy?.tiers ?? {});
  const tier = by("tier").value;
  by("tier-label").hidden = tiers.length === 0;
  by("tier").replaceChildren(make("option", { value: "" }, "none"), ...tiers.map((tier) => make("option", {}, tier)));
  if (tiers.includes(tier)) by("tier").value = tier;
}

export function choose(policy, key, isQuiet = false) {
  by("policy").value = policy;
  showKeyFields(key === undefined ? [] : (valuesOf(policy, key) ?? []));
  if (!isQuiet) {
    by("playground").scrollIntoView();
    inputs()[0]?.focus();
  }
}

// Splits a key, as answers show it, into the values of its fields: a key of several fields is written
// `9:127.0.0.1,5:alice,`, with lengths in bytes. Null if no typed values make this key.
export function valuesOf(name, key) {
  const fields = policies.find((policy) => policy.name === name)?.key;
  if (!fields) return null;
  const values = fields.length > 1 ? decomposed(key, fields.length) : [key];
  // An input cannot contain a line break.
  return values?.every((value) => !/[\r\n]/.test(value)) ? values : null;
}

function decomposed(key, count) {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const values = [];
  let bytes = new TextEncoder().encode(key);
  while (values.length < count) {
    const colon = bytes.indexOf(58);
    const digits = decoder.decode(bytes.slice(0, Math.max(0, colon)));
    const end = colon + 1 + Number(digits);
    if (!/^\d+$/.test(digits) || bytes[end] !== 44) return null;
    values.push(decoder.decode(bytes.slice(colon + 1, end)));
    bytes = bytes.slice(end + 1);
  }
  return bytes.length === 0 ? values : null;
}

// The selection as the body of a check.
export function subject() {
  const policy = chosen();
  const body = { policy: by("policy").value };
  if (policy?.key?.length) body.fields = Object.fromEntries(inputs().map(({ name, value }) => [name, value]));
  else body.key = inputs()[0]?.value ?? "";
  if (by("tier").value) body.tier = by("tier").value;
  return body;
}
