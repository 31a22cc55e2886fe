// The overview: rates, policies, most refused keys, and the server's state.

import { sparkline } from "./chart.js";
import { by, keyParts, make, setText } from "./dom.js";
import { atLeast, clock, clockTime, count, duration, limitText, rate, share } from "./format.js";
import { fieldsOf, limitsOf, policyOf } from "./subject.js";

const MOST_POLICIES = 200;
const rows = new Map();

const RATES = { allowed: "rate-allow", refused: "rate-deny", shadow_refused: "rate-shadow", error: "rate-error" };
// A rate needs two events.
const rateOf = (now, outcome) => (now ? rate(now[outcome]) : "–");

export function showRates(now) {
  for (const [outcome, id] of Object.entries(RATES)) setText(by(id), rateOf(now, outcome));
}

// The share of decisions that were refused; errors are not decisions.
export const refusedShare = (lately) => (lately ? share(lately.refused, lately.allowed + lately.refused + lately.shadow_refused) : "–");

// Badges that say how a policy is applied.
export function badges(name) {
  const { shadow, rollout, limits = [], origin } = policyOf(name) ?? {};
  const all = [];
  if (shadow) all.push(make("span", { class: "tag shadow-tag", title: "Decides and reports, refuses no request" }, "shadow"));
  else if (limits.some((limit) => limit.shadow)) all.push(make("span", { class: "tag shadow-tag" }, "shadow limit"));
  if (rollout) all.push(make("span", { class: "tag rollout-tag", title: "Enforced for this part of the keys" }, `rollout ${rollout}`));
  if (origin === "store") all.push(make("span", { class: "tag", title: "Set at run time, kept in the store" }, "from store"));
  return all;
}

// Policies that a caller's numbers make (CL.THROTTLE) are not listed; only their names and sizes are known.
export const limitTexts = (policy) => limitsOf(policy.name)?.map(limitText) ??
  policy.limits.map(({ name, limit }) => (limit === null ? name : `${name}: capacity ${count(limit)}`));

// `longer` is what the server remembers of each policy, where more than the last two minutes are shown.
export function showPolicies(history, live, longer) {
  const shown = live.policies.slice(0, MOST_POLICIES);
  for (const [name, row] of rows) {
    if (!shown.some((policy) => policy.name === name)) { row.remove(); rows.delete(name); }
  }
  shown.forEach((policy, at) => {
    const { name } = policy;
    if (!rows.has(name)) rows.set(name, policyRow(name));
    const row = rows.get(name);
    if (by("policies").children[at] !== row) by("policies").insertBefore(row, by("policies").children[at] ?? null);
    const now = history.now(name);
    const columns = longer?.[name];
    const points = longer ? columnPoints(columns) : history.spark(name);
    const lately = longer ? points.reduce((all, point) => ({
      allowed: all.allowed + point.allowed, refused: all.refused + point.refused, shadow_refused: all.shadow_refused + point.shadow_refused,
    }), { allowed: 0, refused: 0, shadow_refused: 0 }) : history.lately(name);
    row.cells[1].replaceChildren(sparkline(points));
    const tags = badges(name);
    const marks = row.cells[0].querySelector(".tags");
    if (marks.textContent !== tags.map((tag) => tag.textContent).join("")) marks.replaceChildren(...tags);
    [...["allowed", "refused", "shadow_refused"].map((outcome) => rateOf(now, outcome)), refusedShare(lately),
      live.store.name === "memory" ? count(policy.keys) : "–", count(policy.reservations), limitTexts(policy).join("; ")]
      .forEach((text, column) => setText(row.cells[column + 2], text));
  });
  const more = live.policies.length - shown.length;
  by("policies-more").hidden = more <= 0;
  setText(by("policies-more"), `and ${more} more`);
}

const columnPoints = (columns) => (columns?.allowed ?? []).map((allowed, at) => ({
  allowed, refused: columns.refused[at], shadow_refused: columns.shadow_refused[at],
}));

export const pageOf = (name) => `#/policies/${encodeURIComponent(name)}`;

function policyRow(name) {
  const link = make("a", { href: pageOf(name), title: "Its own page" }, name);
  return make("tr", {}, make("td", {}, link, make("span", { class: "tags" })), ...Array.from({ length: 8 }, () => make("td")));
}

// The cells of one refused key: the key, and how often at least.
export function refusedCells({ policy, key, fields, refusals, refusals_at_most: most }, isNamed, onChoose) {
  const shown = keyParts(key, fields);
  const text = isNamed
    ? make("button", { type: "button", class: "link", title: "Open it in the playground", onclick: () => onChoose(policy, key) }, shown)
    : make("code", {}, shown);
  const bound = most > refusals ? `between ${count(refusals)} and ${count(most)}` : "exact";
  return [make("td", { class: "key" }, text), make("td", { title: bound }, atLeast(refusals, most))];
}

let lastRefused = "";

// `isNamed` tells whether the playground can check a policy and key.
export function showRefused({ shown, keys, since_us: since }, isNamed, onChoose) {
  setText(by("refused-since"), `Refusals and shadow refusals since ${clockTime(since)}. ≥: at least so many.`);
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
  by("refused").replaceChildren(...keys.map((key, at) => make("tr", {},
    make("td", {}, make("a", { href: pageOf(key.policy) }, key.policy)), ...refusedCells(key, named[at], onChoose))));
  // Keep the focus on the same row.
  if (focused) by("refused").rows[focused - 1]?.querySelector("button")?.focus();
}

export function showState(live) {
  const { store, connections, config } = live;
  const errors = Object.entries(store.errors).filter(([, times]) => times > 0);
  const health = store.degraded
    ? make("strong", { class: "bad" }, `degraded: unreachable ${outage(live)}. ${localShare(store.nodes)}`)
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

// How long the store has been unreachable, and since when.
function outage({ at_us: now, store: { degraded_since_us: since } }) {
  return since === null ? "since a moment ago" : `for ${duration(Math.max(1e6, now - since), Math.floor)}, since ${clockTime(since)}`;
}

// What this server admits while the store is away.
function localShare({ configured, alive }) {
  const nodes = Math.max(configured, alive ?? 0);
  const part = nodes > 1 ? `1/${count(nodes)} of each limit` : "each limit whole";
  return `This server admits ${part} by itself where on_store_error is local; other policies allow or deny.`;
}

// Whether more servers share the store than the configuration says.
const tooMany = ({ alive, configured }) => alive > configured;

// Problems that need attention, in one banner.
export function notice(live) {
  const lines = [];
  if (live.store.degraded) lines.push(`Store unreachable ${outage(live)}. ${localShare(live.store.nodes)}`);
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
  for (const id of ["policies", "refused", "refused-since", "store", "server", "connections", "config", "version", "notice"]) by(id).replaceChildren();
  for (const id of ["policies-more", "refused-table", "refused-none", "notice"]) by(id).hidden = true;
}
