// Connects the live feed to the parts of the page.

import { learnRoles, startAccess } from "./dashboard/access.js";
import { startAdministration } from "./dashboard/admin.js";
import { hasToken } from "./dashboard/api.js";
import { Chart } from "./dashboard/chart.js";
import { by, setText, startCopying } from "./dashboard/dom.js";
import { follow } from "./dashboard/feed.js";
import { rate } from "./dashboard/format.js";
import { History, isSameRun } from "./dashboard/history.js";
import { clearOverview, notice, showPolicies, showRates, showRefused, showStale, showState } from "./dashboard/overview.js";
import { clearLevels } from "./dashboard/levels.js";
import { clearOverrides } from "./dashboard/overrides.js";
import { clearPlayground, curlOf, showCurl, startPlayground } from "./dashboard/playground.js";
import { openPolicy, overridesChanged, policyShown, refresh, showPolicy, startPolicy } from "./dashboard/policy.js";
import { isLive, pointsOf, range, readHistory, showRangeText, startRanges } from "./dashboard/ranges.js";
import { choose, clearPolicies, firstBody, isEmpty, loadPolicies, valuesOf } from "./dashboard/subject.js";

const history = new History();
const chart = new Chart(by("chart"), { name: "Decisions per second", format: rate, series: [
  ["allowed", "Allowed/s", "c-allow"], ["shadow_refused", "Shadow-refused/s", "c-shadow"], ["refused", "Refused/s", "c-deny"]] });
// The event at which the list of policies was last loaded.
let read = null;
// What the server remembers, where more than two minutes are shown.
let longer = null;
let longerTimer;

async function onLive(live) {
  history.add(live);
  show(live);
  // Links cannot send a token.
  by("links").hidden = hasToken();
  if (!read || read.config.generation !== live.config.generation || !isSameRun(read, live)) {
    const isNew = !read || !isSameRun(read, live);
    if (await loadPolicies()) {
      read = live;
      if (isNew) {
        const told = await readHistory(`${range().each}&by_policy=true`);
        if (told && isLive()) history.seed(told);
        route();
      }
      show(live);
    }
    showCurl();
  }
}

// Everything that an event changes.
function show(live) {
  showState(live);
  notice(live);
  showRates(history.now());
  showPolicies(history, live, longer?.policies);
  showRefused(live.refused, (policy, key) => valuesOf(policy, key) !== null, onChoose);
  showPolicy(history, live);
  showFirst(live);
  if (longer) chart.show(longer.points, longer.end, range().span);
  else chart.show(history.points(), live.at_us, range().span);
}

// A server that has decided nothing yet says how to send the first request.
function showFirst({ totals }) {
  const isUnused = Object.values(totals).every((count) => count === 0);
  by("first").hidden = !isUnused || isEmpty();
  if (isUnused && !isEmpty()) setText(by("first-curl"), curlOf(firstBody()));
}

// The longer ranges are read from the server, now and again.
async function readLonger() {
  clearTimeout(longerTimer);
  const shown = range();
  showRangeText();
  refresh();
  if (isLive()) { longer = null; return again(); }
  if (!document.hidden) {
    const [told, each] = await Promise.all([readHistory(shown.query), readHistory(`${shown.each}&by_policy=true`)]);
    if (shown !== range()) return;
    if (told && each) longer = { points: pointsOf(told), end: told.end_us, policies: Object.fromEntries(each.policies.map((policy) => [policy.name, policy])) };
    again();
  }
  longerTimer = setTimeout(readLonger, shown.every);
}

function again() {
  const live = history.events.at(-1);
  if (live?.store) show(live);
}

// The overview, or the page of a policy: `#/policies/NAME`.
function route() {
  // A link within the page is no other page.
  if (location.hash && !location.hash.startsWith("#/")) return;
  const match = /^#\/policies\/(.+)$/.exec(location.hash);
  let name = null;
  try { name = match && decodeURIComponent(match[1]); } catch { /* Not a name: the overview. */ }
  for (const element of document.querySelectorAll(".overview")) element.hidden = name !== null;
  by("policy-page").hidden = by("back").hidden = name === null;
  document.title = name === null ? "Waterclock" : `${name} – Waterclock`;
  const was = policyShown();
  if (was !== name) {
    openPolicy(name);
    showCurl();
    again();
    if (name !== null && was !== undefined) by("policy-name").focus();
  }
}

function onChoose(policy, key) {
  choose(policy, key);
  showCurl();
}

// Clears everything that was read with a token.
function clear() {
  read = null;
  longer = null;
  history.clear();
  clearOverview();
  chart.clear();
  openPolicy(null);
  clearPolicies();
  clearPlayground();
  clearLevels();
  for (const id of ["admin-result", "override"]) by(id).replaceChildren();
  clearOverrides();
  for (const id of ["links", "first"]) by(id).hidden = true;
  showCurl();
}

function onState(state, text, mayNotRead) {
  if (mayNotRead) { clear(); learnRoles(); }
  by("connection").dataset.state = state;
  setText(by("connection"), mayNotRead ? "Not signed in" : text);
  if (state !== "good") showStale(history.events.at(-1));
}

const startOver = follow(onLive, onState);

async function onToken(token) {
  read = null;
  if (!token) clear();
  if (await learnRoles()) by("sign-in").hidden = true;
  startOver();
  showCurl();
}

addEventListener("hashchange", route);
startAccess(onToken);
startRanges(readLonger);
startPlayground();
startPolicy();
startAdministration(overridesChanged);
startCopying();
learnRoles();
readLonger();
