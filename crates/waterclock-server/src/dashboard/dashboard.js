// The page as a whole: the feed comes in here, and every part shows its share of it.

import { startAdministration } from "./dashboard/admin.js";
import { hasToken, useToken } from "./dashboard/api.js";
import { describe, draw, forgetChart } from "./dashboard/chart.js";
import { by, say } from "./dashboard/dom.js";
import { follow } from "./dashboard/feed.js";
import { History, isSameRun } from "./dashboard/history.js";
import { forgetOverview, notice, showPolicies, showRates, showRefused, showStale, showState } from "./dashboard/overview.js";
import { forgetLevels } from "./dashboard/levels.js";
import { forgetPlayground, showCurl, startPlayground } from "./dashboard/playground.js";
import { choose, forgetPolicies, loadPolicies, valuesOf } from "./dashboard/subject.js";

const history = new History();
// What was told when the policies to choose from were read.
let read = null;
let described = 0;

async function onLive(live) {
  history.add(live);
  showState(live);
  notice(live);
  showRates(history.now());
  showPolicies(history, live, onChoose);
  showRefused(live.refused, (policy, key) => valuesOf(policy, key) !== null, onChoose);
  // A link sends no token.
  by("links").hidden = hasToken();
  const points = history.points();
  if (points.length > 0) {
    draw(points);
    if (live.at_us - described > 5e6) { describe(points); described = live.at_us; }
  }
  if (!read || read.config.generation !== live.config.generation || !isSameRun(read, live)) {
    if (await loadPolicies()) read = live;
    showCurl();
  }
}

function onChoose(policy, key) {
  choose(policy, key);
  showCurl();
}

// What was read with a token does not stay when the token goes.
function forget() {
  read = null;
  history.forget();
  forgetOverview();
  forgetChart();
  forgetPolicies();
  forgetPlayground();
  forgetLevels();
  by("admin-said").replaceChildren();
  by("links").hidden = true;
  showCurl();
}

function onState(state, text, mayNotRead) {
  if (mayNotRead) forget();
  by("connection").dataset.state = state;
  say(by("connection"), text);
  if (state !== "good") showStale(history.events.at(-1));
}

const startOver = follow(onLive, onState);

function onToken(token) {
  useToken(token);
  by("token").value = "";
  by("token").placeholder = token ? "in use" : "only if one is needed";
  by("token-forget").hidden = !token;
  read = null;
  if (!token) forget();
  startOver();
  showCurl();
}

by("token-form").addEventListener("submit", (event) => { event.preventDefault(); onToken(by("token").value.trim()); });
by("token-forget").addEventListener("click", () => { onToken(""); by("token").focus(); });
startPlayground();
startAdministration();
