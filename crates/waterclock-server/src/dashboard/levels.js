// Bars that show what each limit has left, animated between two answers of the server.

import { request } from "./api.js";
import { by, make, setText } from "./dom.js";
import { count, duration } from "./format.js";

const STILL = matchMedia("(prefers-reduced-motion: reduce)");
const LONGEST_US = 3e6;

let shown = null;
let moving;
let reading;

// A blocked key has nothing left, whatever its limits.
export const isBlocked = ({ exception, source, allowed }) => exception === "block" || (source === "policy" && !allowed);

export function clearLevels() {
  clearTimeout(moving);
  clearTimeout(reading);
  shown = null;
  by("levels").replaceChildren();
}

// Shows a decision that was just made for a policy and key.
export function showLevels(decision, about) {
  if (isBlocked(decision)) return clearLevels();
  const isSame = shown && JSON.stringify(shown.about) === JSON.stringify(about) &&
    shown.limits.length === decision.limits.length;
  shown = { about, limits: decision.limits, since: performance.now(), rows: isSame ? shown.rows : rows(decision.limits) };
  move();
  readAgain();
}

function rows(limits) {
  const made = limits.map(({ name, limit }) => {
    const fill = make("div");
    const bar = make("div", { class: "bar", role: "meter", "aria-label": `Left of ${name}`, "aria-valuemin": 0, "aria-valuemax": limit ?? 1 }, fill);
    const text = make("span");
    return { fill, bar, text, row: make("div", { class: "level" }, make("span", { class: "level-name" }, name), bar, text) };
  });
  by("levels").replaceChildren(...made.map(({ row }) => row));
  return made;
}

// What is left some time after an answer: constant until the next unit, then linear until it is full.
function levelAt({ limit, remaining, next_unit_us: next, reset_after_us: reset }, elapsed) {
  if (next === null || remaining >= limit || elapsed >= reset) return limit;
  if (elapsed < next) return remaining + elapsed / next;
  const rest = reset - next;
  return Math.min(limit, remaining + 1 + (rest > 0 ? ((limit - remaining - 1) * (elapsed - next)) / rest : 0));
}

function move() {
  clearTimeout(moving);
  const elapsed = (performance.now() - shown.since) * 1e3;
  let isFull = true;
  shown.limits.forEach((limit, at) => {
    const { fill, bar, text } = shown.rows[at];
    const wait = limit.next_unit_us === null ? null : limit.next_unit_us - elapsed;
    // A limit without units either allows or refuses.
    if (limit.limit === null) {
      const passes = limit.remaining !== 0 || (wait !== null && wait <= 0);
      isFull &&= passes;
      fill.style.transform = `scaleX(${passes ? 1 : 0})`;
      bar.classList.toggle("empty", !passes);
      bar.setAttribute("aria-valuenow", passes ? 1 : 0);
      return setText(text, passes ? "allows" : `refuses${wait === null ? "" : ` for ${duration(wait)}`}`);
    }
    const level = levelAt(limit, elapsed);
    isFull &&= level >= limit.limit;
    fill.style.transform = `scaleX(${limit.limit ? level / limit.limit : 0})`;
    bar.classList.toggle("empty", level < 1);
    bar.setAttribute("aria-valuenow", Math.floor(level));
    const next = level < limit.limit && wait !== null && wait > 0 ? `, next in ${duration(wait)}` : "";
    setText(text, `${count(Math.floor(level))} of ${count(limit.limit)}${next}`);
  });
  if (!isFull) moving = setTimeout(move, STILL.matches ? 1_000 : 100);
}

// Peeks again when the next unit is due, until the limits are full.
function readAgain() {
  clearTimeout(reading);
  const waits = shown.limits.filter(({ next_unit_us: next }) => next !== null).map(({ next_unit_us: next }) => next);
  if (waits.length === 0) return;
  reading = setTimeout(async () => {
    const { about } = shown;
    if (document.hidden) return readAgain();
    const response = await request("POST", "v1/peek", about).catch(() => null);
    if (response?.ok && shown?.about === about) showLevels(response.json, about);
  }, Math.max(250, Math.min(LONGEST_US, ...waits) / 1e3 + 20));
}
