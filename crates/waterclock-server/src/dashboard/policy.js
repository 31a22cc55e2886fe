// The page of one policy: its numbers, charts, refused keys, overrides and blocks.

import { request } from "./api.js";
import { Chart } from "./chart.js";
import { by, keyParts, make, setText } from "./dom.js";
import { clockTime, count, latency, rate, share } from "./format.js";
import { overriddenKey, overrideText } from "./overrides.js";
import { badges, limitTexts, refusedCells, refusedShare } from "./overview.js";
import { pointsOf, range, readHistory } from "./ranges.js";
import { choose, fieldsOf, valuesOf } from "./subject.js";

// Overrides are read page by page, and searched here.
const PAGE = 1_000;
const MOST_READ = 5_000;
const MOST_SHOWN = 50;

let name = null;
let overrides = [];
let readMore = false;
let timer;
const decided = ({ allowed, refused, shadow_refused: shadow }) => allowed + refused + shadow;

const charts = {
  rate: new Chart(by("policy-rate-chart"), { name: "Decisions per second", format: rate, series: [["allowed", "Allowed/s", "c-allow"], ["shadow_refused", "Shadow-refused/s", "c-shadow"], ["refused", "Refused/s", "c-deny"]] }),
  share: new Chart(by("policy-share-chart"), { name: "Refused share", isStacked: false, most: 100, format: (percent) => share(percent, 100), series: [["share", "Refused", "c-deny"]] }),
  latency: new Chart(by("policy-latency-chart"), { name: "Latency", isStacked: false, least: 10, format: latency, series: [["p50", "50 % within", "c-p50"], ["p99", "99 % within", "c-p99"]] }),
};

export const policyShown = () => name;

export function openPolicy(policy) {
  name = policy;
  overrides = [];
  by("override-search").value = "";
  for (const chart of Object.values(charts)) chart.clear();
  for (const id of ["policy-refused", "policy-overrides", "policy-overrides-note", "policy-limits", "policy-badges", "policy-note"]) by(id).replaceChildren();
  setText(by("policy-name"), policy ?? "");
  clearTimeout(timer);
  if (policy === null) return;
  choose(policy, undefined, true);
  refresh();
  readOverrides();
}

// What changes with every event.
export function showPolicy(history, live) {
  if (name === null) return;
  const policy = live.policies.find((policy) => policy.name === name);
  const now = policy ? history.now(name) : null;
  for (const [id, outcome] of [["policy-allow", "allowed"], ["policy-deny", "refused"], ["policy-shadow", "shadow_refused"]]) {
    setText(by(id), now ? rate(now[outcome]) : "–");
  }
  if (!policy) return setText(by("policy-limits"), "No policy of this name is in force.");
  setText(by("policy-limits"), limitTexts(policy).join("; "));
  const tags = badges(name);
  if (by("policy-badges").textContent !== tags.map((tag) => tag.textContent).join("")) by("policy-badges").replaceChildren(...tags);
  const keys = live.store.name === "memory" ? `${count(policy.keys)} keys, ` : "";
  const { totals } = policy;
  setText(by("policy-note"), `${keys}${count(policy.reservations)} reserved. Since the start: ${count(totals.allowed)} allowed, ${count(totals.refused)} refused, ${count(totals.shadow_refused)} shadow-refused, ${count(totals.error)} errors.`);
}

// Reads the history and the refused keys, now and again.
export async function refresh() {
  clearTimeout(timer);
  const [mine, shown] = [name, range()];
  if (mine === null) return;
  if (!document.hidden) {
    const [told, refused] = await Promise.all([readHistory(`policy=${encodeURIComponent(mine)}&${shown.query}`),
      request("GET", `v1/refused?policy=${encodeURIComponent(mine)}`).catch(() => null)]);
    if (mine !== name || shown !== range()) return;
    if (told) showHistory(told, shown);
    if (refused?.ok) showRefusedKeys(refused.json);
  }
  clearTimeout(timer);
  timer = setTimeout(refresh, shown.every);
}

function showHistory(told, { span }) {
  const points = pointsOf(told);
  charts.rate.show(points, told.end_us, span);
  charts.share.show(points.map(({ at, values }) => ({ at, values: { share: decided(values) > 0 ? (100 * values.refused) / decided(values) : null } })), told.end_us, span);
  const sums = points.reduce((all, { values }) => Object.fromEntries(Object.entries(values).map(([key, value]) => [key, (all[key] ?? 0) + value])), {});
  setText(by("policy-share"), points.length ? refusedShare(sums) : "–");
  // The protocol with the most points; the figure is of all policies.
  const faces = Object.entries(told.latency).map(([face, of]) => [face, of, of.p99_us.filter((us) => us !== null).length]);
  const [face, of] = faces.sort((a, b) => b[2] - a[2])[0] ?? [];
  setText(by("policy-latency-of"), face ? `${face}, all policies` : "");
  const length = of?.p99_us.length ?? 0;
  charts.latency.show((of?.p99_us ?? []).map((p99, at) => ({ at: told.end_us - (length - 1 - at) * told.step_us, values: { p50: of.p50_us[at], p99 } })), told.end_us, span);
}

function showRefusedKeys({ shown, since_us: since, keys }) {
  by("policy-refused-table").hidden = keys.length === 0;
  setText(by("policy-refused-none"), keys.length ? `Since ${clockTime(since)}${shown === "hashed" ? ", as hashes: show_keys is off" : ""}.` : `No refusals that can be counted since ${clockTime(since)}.`);
  if (by("policy-refused").contains(document.activeElement)) return;
  by("policy-refused").replaceChildren(...keys.map((key) =>
    make("tr", {}, ...refusedCells(key, shown === "raw" && !key.escaped && valuesOf(key.policy, key.key) !== null, choose))));
}

// Overrides that the store keeps, and keys that the configuration names.
async function readOverrides() {
  const mine = name;
  const path = `v1/policies/${encodeURIComponent(mine)}`;
  const policy = await request("GET", path).catch(() => null);
  if (mine !== name) return;
  const listed = (keys, text) => (keys ?? []).map((key) => ({ key, text, isOfFile: true }));
  const { block, exempt, overridden } = policy?.ok ? policy.json : {};
  overrides = [...listed(block, "blocked by the configuration"), ...listed(exempt, "exempt by the configuration"), ...listed(overridden, "override of the configuration")];
  for (let next = ""; next !== null && overrides.length < MOST_READ;) {
    const page = await request("GET", `${path}/overrides?count=${PAGE}${next && `&after=${encodeURIComponent(next)}`}`).catch(() => null);
    if (mine !== name) return;
    if (!page?.ok) break;
    overrides.push(...page.json.overrides.map((one) => ({ ...one, text: overrideText(one) })));
    next = page.json.next;
    readMore = next !== null;
  }
  showOverrideList();
}

function showOverrideList() {
  const wanted = by("override-search").value.trim().toLowerCase();
  const found = overrides.filter(({ key, key_hex: hex, text }) => `${key ?? `0x${hex}`} ${text}`.toLowerCase().includes(wanted));
  by("policy-overrides").replaceChildren(...found.slice(0, MOST_SHOWN).map((one) => make("li", {},
    one.isOfFile ? keyParts(one.key, fieldsOf(name, one.key)) : overriddenKey(name, one), " ", make("span", { class: "muted" }, one.text))));
  const beyond = readMore ? ` Only the first ${count(MOST_READ)} are searched; waterclock override list has all.` : "";
  const text = overrides.length === 0 ? "No key has an override, is blocked or exempt."
    : found.length === 0 ? "None matches."
    : found.length > MOST_SHOWN ? `${count(MOST_SHOWN)} of ${count(found.length)} shown; search for others.` : `${count(found.length)} of ${count(overrides.length)}.`;
  setText(by("policy-overrides-note"), text + beyond);
}

export function startPolicy() {
  by("override-search").addEventListener("input", showOverrideList);
}

// After an administrator has changed one.
export const overridesChanged = () => { if (name !== null) readOverrides(); };
