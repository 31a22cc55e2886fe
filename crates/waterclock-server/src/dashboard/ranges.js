// How much time the charts show, and the points that the server keeps of it.

import { request } from "./api.js";
import { by } from "./dom.js";
import { OUTCOMES } from "./history.js";

// `query` of one chart, `each` of small charts of all policies, and how often they are asked for.
export const RANGES = {
  "2m": { span: 120e6, text: "2 min", query: "last=2m&step=1s", each: "last=2m&step=1s", every: 2_000 },
  "1h": { span: 3600e6, text: "1 h", query: "last=1h&step=10s", each: "last=1h&step=1m", every: 10_000 },
  "1d": { span: 86400e6, text: "24 h", query: "last=1d&step=2m", each: "last=1d&step=12m", every: 60_000 },
};

let chosen = "2m";
export const range = () => RANGES[chosen];
export const isLive = () => chosen === "2m";

// The points of a history as rates per second.
export function pointsOf({ end_us: end, step_us: step, decisions }) {
  if (!decisions) return [];
  const length = decisions.allowed.length;
  return decisions.allowed.map((_, at) => ({
    at: end - (length - 1 - at) * step,
    values: Object.fromEntries(OUTCOMES.map((name) => [name, decisions[name][at] / (step / 1e6)])),
  }));
}

export async function readHistory(query) {
  const response = await request("GET", `v1/history?${query}`).catch(() => null);
  return response?.ok ? response.json : null;
}

export function startRanges(onChange) {
  const buttons = [...document.querySelectorAll("[data-range]")];
  const show = () => buttons.forEach((button) => button.setAttribute("aria-pressed", button.dataset.range === chosen));
  for (const button of buttons) {
    button.addEventListener("click", () => { chosen = button.dataset.range; show(); onChange(); });
  }
  show();
}

export const showRangeText = () => { by("policies-span").textContent = `Refused share and charts: the last ${range().text}.`; };
