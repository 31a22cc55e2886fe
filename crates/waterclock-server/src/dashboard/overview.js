// What the server is doing, and how it is.

import { by, keyText, make, say } from "./dom.js";
import { clock, count, duration, rate, share } from "./format.js";

const MOST_POLICIES = 200;
const rows = new Map();

const RATES = { allow: "rate-allow", deny: "rate-deny", shadow_deny: "rate-shadow", error: "rate-error" };
// One event makes no rate.
const rateOf = (now, outcome) => (now ? rate(now[outcome]) : "–");

export function showRates(now) {
  for (const [outcome, id] of Object.entries(RATES)) say(by(id), rateOf(now, outcome));
}

// The part of all decisions that were refused; errors are no decisions.
const refusedShare = (lately) => (lately ? share(lately.deny, lately.allow + lately.deny + lately.shadow_deny) : "–");

export function showPolicies(history, live, onChoose) {
  const shown = live.policies.slice(0, MOST_POLICIES);
  for (const [name, row] of rows) {
    if (!shown.some((policy) => policy.name === name)) { row.remove(); rows.delete(name); }
  }
  shown.forEach((policy, at) => {
    const { name } = policy;
    if (!rows.has(name)) rows.set(name, policyRow(name, onChoose));
    const row = rows.get(name);
    if (by("policies").children[at] !== row) by("policies").insertBefore(row, by("policies").children[at] ?? null);
    const now = history.now(name);
    const limits = policy.limits.map(({ name, limit }) => (limit === null ? name : `${name} ${count(limit)}`));
    [...["allow", "deny", "shadow_deny"].map((outcome) => rateOf(now, outcome)), refusedShare(history.lately(name)),
      live.store.name === "memory" ? count(policy.keys) : "–", count(policy.reservations), limits.join(", ")]
      .forEach((text, column) => say(row.cells[column + 1], text));
  });
  const more = live.policies.length - shown.length;
  by("policies-more").hidden = more <= 0;
  say(by("policies-more"), `and ${more} more`);
}

function policyRow(name, onChoose) {
  const choose = make("button", { type: "button", class: "link", title: "Try it in the playground", onclick: () => onChoose(name) }, name);
  // Numbers that a caller makes up are no policy to ask by name.
  const first = make("td", {}, name.includes(".") ? name : choose);
  return make("tr", {}, first, ...Array.from({ length: 7 }, () => make("td")));
}

let lastRefused = "";

// `isNamed` says of a policy and a key whether the playground can ask about it.
export function showRefused({ shown, keys }, isNamed, onChoose) {
  const isRaw = shown === "raw";
  // One that is no text is shown as something that is, which is another key.
  const named = keys.map(({ policy, key, escaped }) => isRaw && !escaped && isNamed(policy, key));
  const text = JSON.stringify([shown, keys, named]);
  if (text === lastRefused) return;
  lastRefused = text;
  by("refused-none").hidden = keys.length > 0;
  by("refused-table").hidden = keys.length === 0;
  say(by("refused-key"), isRaw ? "Key" : "Key (hashed)");
  const focused = document.activeElement?.closest?.("#refused tr")?.rowIndex;
  by("refused").replaceChildren(...keys.map(({ policy, key, refusals }, at) => {
    const text = named[at]
      ? make("button", { type: "button", class: "link", title: "Look at it in the playground", onclick: () => onChoose(policy, key) }, keyText(key))
      : make("code", {}, keyText(key));
    return make("tr", {}, make("td", {}, policy), make("td", { class: "key" }, text), make("td", {}, count(refusals)));
  }));
  // Whoever stood on a button still does.
  if (focused) by("refused").rows[focused - 1]?.querySelector("button")?.focus();
}

export function showState(live) {
  const { store, connections, config } = live;
  const errors = Object.entries(store.errors).filter(([, times]) => times > 0);
  const health = store.degraded
    ? make("strong", { class: "bad" }, "degraded: it does not answer, and policies say who decides")
    : make("span", { class: "good" }, "healthy");
  fill("store", [`${store.name}, `, health,
    ...(errors.length ? [`; failures so far: ${errors.map(([kind, times]) => `${kind} ${count(times)}`).join(", ")}`] : []),
    ...(store.overflowed ? [make("span", { class: "odd" }, `; full: ${count(store.overflowed)} charges to shared places`)] : [])]);
  const phase = live.phase === "serving" ? "serving" : make("strong", { class: "odd" }, `stopping (${live.phase})`);
  fill("server", [phase, `, up for ${duration(live.uptime_us, Math.floor)}`]);
  say(by("version"), live.version);
  fill("connections", [Object.entries(connections).map(([face, open]) => `${face} ${count(open)}`).join(", ")]);
  const { last_reload: last, needs_restart: restart } = config;
  const came = last.success
    ? make("span", { class: "good" }, `in force since ${clock(last.at_us)}`)
    : make("strong", { class: "bad" }, `the file offered ${clock(last.at_us)} was turned down`);
  fill("config", [`${config.file}, generation ${config.generation}: `, came,
    ...(last.problems.length ? [make("ul", {}, ...last.problems.map((line) => make("li", {}, line)))] : []),
    ...(restart.length ? [make("p", { class: "odd" }, `Takes a restart: ${restart.join(", ")}`)] : [])]);
}

// Replaces the contents, if their text has changed.
function fill(id, contents) {
  const fresh = make("span", {}, ...contents);
  if (by(id).textContent !== fresh.textContent) by(id).replaceChildren(fresh);
}

// Numbers that nobody renews are not shown as if they were true.
export function showStale(live) {
  showRates(null);
  if (!live) return;
  say(by("notice"), `What is shown was true at ${clock(live.at_us)}.`);
  by("notice").hidden = false;
}

// Changes that matter, for everybody to notice. Says nothing twice.
export function notice(live) {
  const lines = [];
  if (live.store.degraded) lines.push("The store does not answer: decisions are made without it.");
  if (!live.config.last_reload.success) lines.push("The configuration file has mistakes; the one before stays in force.");
  if (live.phase !== "serving") lines.push("The server is about to stop.");
  say(by("notice"), lines.join(" "));
  by("notice").hidden = lines.length === 0;
}

// For those who may not read any more.
export function forgetOverview() {
  rows.clear();
  lastRefused = "";
  for (const id of ["policies", "refused", "store", "server", "connections", "config", "version", "notice"]) by(id).replaceChildren();
  for (const id of ["policies-more", "refused-table", "refused-none", "notice"]) by(id).hidden = true;
}
