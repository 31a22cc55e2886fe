// The overview: rates, policies, most refused keys, and the server's state.

import { by, keyText, make, setText } from "./dom.js";
import { clock, count, duration, limitText, rate, share } from "./format.js";
import { limitsOf } from "./subject.js";

const MOST_POLICIES = 200;
const rows = new Map();

const RATES = { allowed: "rate-allow", refused: "rate-deny", shadow_refused: "rate-shadow", error: "rate-error" };
// A rate needs two events.
const rateOf = (now, outcome) => (now ? rate(now[outcome]) : "–");

export function showRates(now) {
  for (const [outcome, id] of Object.entries(RATES)) setText(by(id), rateOf(now, outcome));
}

// The share of decisions that were refused; errors are not decisions.
const refusedShare = (lately) => (lately ? share(lately.refused, lately.allowed + lately.refused + lately.shadow_refused) : "–");

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
    // Policies that a caller's numbers make (CL.THROTTLE) are not listed; only their names and sizes are known.
    const limits = limitsOf(name)?.map(limitText) ??
      policy.limits.map(({ name, limit }) => (limit === null ? name : `${name}: capacity ${count(limit)}`));
    [...["allowed", "refused", "shadow_refused"].map((outcome) => rateOf(now, outcome)), refusedShare(history.lately(name)),
      live.store.name === "memory" ? count(policy.keys) : "–", count(policy.reservations), limits.join("; ")]
      .forEach((text, column) => setText(row.cells[column + 1], text));
  });
  const more = live.policies.length - shown.length;
  by("policies-more").hidden = more <= 0;
  setText(by("policies-more"), `and ${more} more`);
}

function policyRow(name, onChoose) {
  const choose = make("button", { type: "button", class: "link", title: "Try it in the playground", onclick: () => onChoose(name) }, name);
  // A policy made from a caller's numbers (CL.THROTTLE) cannot be checked by name.
  const first = make("td", {}, name.includes(".") ? name : choose);
  return make("tr", {}, first, ...Array.from({ length: 7 }, () => make("td")));
}

let lastRefused = "";

// `isNamed` tells whether the playground can check a policy and key.
export function showRefused({ shown, keys }, isNamed, onChoose) {
  const isRaw = shown === "raw";
  // A key that is not UTF-8 is shown escaped, and the escaped text would be another key.
  const named = keys.map(({ policy, key, escaped }) => isRaw && !escaped && isNamed(policy, key));
  const text = JSON.stringify([shown, keys, named]);
  if (text === lastRefused) return;
  lastRefused = text;
  by("refused-none").hidden = keys.length > 0;
  by("refused-table").hidden = keys.length === 0;
  setText(by("refused-key"), isRaw ? "Key" : "Key (hashed)");
  const focused = document.activeElement?.closest?.("#refused tr")?.rowIndex;
  by("refused").replaceChildren(...keys.map(({ policy, key, refusals }, at) => {
    const text = named[at]
      ? make("button", { type: "button", class: "link", title: "Open it in the playground", onclick: () => onChoose(policy, key) }, keyText(key))
      : make("code", {}, keyText(key));
    return make("tr", {}, make("td", {}, policy), make("td", { class: "key" }, text), make("td", {}, count(refusals)));
  }));
  // Keep the focus on the same row.
  if (focused) by("refused").rows[focused - 1]?.querySelector("button")?.focus();
}

export function showState(live) {
  const { store, connections, config } = live;
  const errors = Object.entries(store.errors).filter(([, times]) => times > 0);
  const health = store.degraded
    ? make("strong", { class: "bad" }, "degraded: unreachable, applying each policy's on_store_error")
    : make("span", { class: "good" }, "healthy");
  fill("store", [`${store.name}, `, health,
    ...(tooMany(store.nodes) ? [make("span", { class: "odd" }, `, shared by ${count(store.nodes.alive)} servers, with nodes = ${count(store.nodes.configured)}`)] : []),
    ...(errors.length ? [`; errors so far: ${errors.map(([kind, times]) => `${kind} ${count(times)}`).join(", ")}`] : []),
    ...(store.overflowed ? [make("span", { class: "odd" }, `; full: ${count(store.overflowed)} charges went to overflow entries`)] : [])]);
  const phase = live.phase === "serving" ? "serving" : make("strong", { class: "odd" }, `shutting down (${live.phase})`);
  fill("server", [phase, `, up for ${duration(live.uptime_us, Math.floor)}`]);
  setText(by("version"), live.version);
  fill("connections", [Object.entries(connections).map(([face, open]) => `${face} ${count(open)}`).join(", ")]);
  const { last_reload: last, needs_restart: restart } = config;
  const status = last.success
    ? make("span", { class: "good" }, `in force since ${clock(last.at_us)}`)
    : make("strong", { class: "bad" }, `the file of ${clock(last.at_us)} was rejected`);
  fill("config", [`${config.file}, generation ${config.generation}: `, status,
    ...(last.problems.length ? [make("ul", {}, ...last.problems.map((line) => make("li", {}, line)))] : []),
    ...(restart.length ? [make("p", { class: "odd" }, `Needs a restart: ${restart.join(", ")}`)] : [])]);
}

// Replaces the contents if their text has changed.
function fill(id, contents) {
  const fresh = make("span", {}, ...contents);
  if (by(id).textContent !== fresh.textContent) by(id).replaceChildren(fresh);
}

// Without a feed, rates are hidden and the rest is marked as stale.
export function showStale(live) {
  showRates(null);
  if (!live) return;
  setText(by("notice"), `Stale: last updated at ${clock(live.at_us)}.`);
  by("notice").hidden = false;
}

// Whether more servers share the store than the configuration says.
const tooMany = ({ alive, configured }) => alive > configured;

// Problems that need attention, in one banner.
export function notice(live) {
  const lines = [];
  if (live.store.degraded) lines.push("Store unreachable: each policy's on_store_error applies.");
  if (tooMany(live.store.nodes)) lines.push("More servers share the store than `nodes` says.");
  if (!live.config.last_reload.success) lines.push("The new configuration is invalid; the previous one stays in force.");
  if (live.phase !== "serving") lines.push("The server is shutting down.");
  setText(by("notice"), lines.join(" "));
  by("notice").hidden = lines.length === 0;
}

// Removes everything that was read with a token that is no longer valid.
export function clearOverview() {
  rows.clear();
  lastRefused = "";
  for (const id of ["policies", "refused", "store", "server", "connections", "config", "version", "notice"]) by(id).replaceChildren();
  for (const id of ["policies-more", "refused-table", "refused-none", "notice"]) by(id).hidden = true;
}
