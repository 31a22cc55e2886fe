// Connects the live feed to the parts of the page.

import { startAdministration } from "./dashboard/admin.js";
import { hasToken, useToken } from "./dashboard/api.js";
import { describe, draw, clearChart } from "./dashboard/chart.js";
import { by, setText } from "./dashboard/dom.js";
import { follow } from "./dashboard/feed.js";
import { History, isSameRun } from "./dashboard/history.js";
import { clearOverview, notice, showPolicies, showRates, showRefused, showStale, showState } from "./dashboard/overview.js";
import { clearLevels } from "./dashboard/levels.js";
import { clearOverrides } from "./dashboard/overrides.js";
import { clearPlayground, showCurl, startPlayground } from "./dashboard/playground.js";
import { choose, clearPolicies, loadPolicies, valuesOf } from "./dashboard/subject.js";

const history = new History();
// The event at which the list of policies was last loaded.
let read = null;
let described = 0;

async function onLive(live) {
  history.add(live);
  showState(live);
  notice(live);
  showRates(history.now());
  showPolicies(history, live, onChoose);
  showRefused(live.refused, (policy, key) => valuesOf(policy, key) !== null, onChoose);
  // Links cannot send a token.
  by("links").hidden = hasToken();
  const points = history.points();
  if (points.length > 0) {
    draw(points);
    if (live.at_us - described > 5e6) { describe(points); described = live.at_us; }
  }
  if (!read || read.config.generation !== live.config.generation || !isSameRun(read, live)) {
    if (await loadPolicies()) {
      read = live;
      // The limits of the policies are known only now.
      showPolicies(history, live, onChoose);
    }
    showCurl();
  }
}

function onChoose(policy, key) {
  choose(policy, key);
  showCurl();
}

// Clears everything that was read with a token.
function clear() {
  read = null;
  history.clear();
  clearOverview();
  clearChart();
  clearPolicies();
  clearPlayground();
  clearLevels();
  for (const id of ["admin-result", "override"]) by(id).replaceChildren();
  clearOverrides();
  by("links").hidden = true;
  showCurl();
}

function onState(state, text, mayNotRead) {
  if (mayNotRead) clear();
  by("connection").dataset.state = state;
  setText(by("connection"), text);
  if (state !== "good") showStale(history.events.at(-1));
}

const startOver = follow(onLive, onState);

function onToken(token) {
  useToken(token);
  by("token").value = "";
  by("token").placeholder = token ? "in use" : "if the server requires one";
  by("token-clear").hidden = !token;
  read = null;
  if (!token) clear();
  startOver();
  showCurl();
}

by("token-form").addEventListener("submit", (event) => { event.preventDefault(); onToken(by("token").value.trim()); });
by("token-clear").addEventListener("click", () => { onToken(""); by("token").focus(); });
startPlayground();
startAdministration();
