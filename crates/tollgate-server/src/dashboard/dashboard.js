// The page as a whole: the feed comes in here, and every part shows its share of it.

import { startAdministration } from "./dashboard/admin.js";
import { useToken } from "./dashboard/api.js";
import { describe, draw } from "./dashboard/chart.js";
import { by, say } from "./dashboard/dom.js";
import { follow } from "./dashboard/feed.js";
import { History } from "./dashboard/history.js";
import { notice, showPolicies, showRates, showRefused, showStale, showState } from "./dashboard/overview.js";
import { showCurl, startPlayground } from "./dashboard/playground.js";
import { choose, loadPolicies } from "./dashboard/subject.js";

const history = new History();
let generation = 0;
let described = 0;

async function onLive(live) {
  history.add(live);
  showState(live);
  notice(live);
  showRates(history.now());
  showPolicies(history, live, onChoose);
  showRefused(live.refused, onChoose);
  const points = history.points();
  if (points.length > 0) {
    draw(points);
    if (live.at_us - described > 5e6) { describe(points); described = live.at_us; }
  }
  if (live.config.generation !== generation || live.uptime_us < 2e6) {
    generation = live.config.generation;
    await loadPolicies();
    showCurl();
  }
}

function onChoose(policy, key) {
  choose(policy, key);
  showCurl();
}

function onState(state, text) {
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
  generation = 0;
  startOver();
  showCurl();
}

by("token-form").addEventListener("submit", (event) => { event.preventDefault(); onToken(by("token").value.trim()); });
by("token-forget").addEventListener("click", () => { onToken(""); by("token").focus(); });
startPlayground();
startAdministration();
