// How much each limit has left, moving with time between two answers of the server.

import { ask } from "./api.js";
import { by, make, say } from "./dom.js";
import { count, duration } from "./format.js";

const STILL = matchMedia("(prefers-reduced-motion: reduce)");
const LONGEST_US = 3e6;

let shown = null;
let moving;
let reading;

// A blocked key has nothing left, whatever its limits would say.
export const isBlocked = ({ exception, source, allowed }) => exception === "block" || (source === "policy" && !allowed);

export function forgetLevels() {
  clearTimeout(moving);
  clearTimeout(reading);
  shown = null;
  by("levels").replaceChildren();
}

// Shows a decision that was just made about a subject.
export function showLevels(decision, about) {
  if (isBlocked(decision)) return forgetLevels();
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

// What is left some time after an answer: nothing new until the next unit, then in even steps until it is full.
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
  shown.limits.forEach((said, at) => {
    const { fill, bar, text } = shown.rows[at];
    const wait = said.next_unit_us === null ? null : said.next_unit_us - elapsed;
    // It counts no units: it lets the next one pass, or not.
    if (said.limit === null) {
      const passes = said.remaining !== 0 || (wait !== null && wait <= 0);
      isFull &&= passes;
      fill.style.transform = `scaleX(${passes ? 1 : 0})`;
      bar.classList.toggle("empty", !passes);
      bar.setAttribute("aria-valuenow", passes ? 1 : 0);
      return say(text, passes ? "passes" : `refuses${wait === null ? "" : `, for ${duration(wait)}`}`);
    }
    const level = levelAt(said, elapsed);
    isFull &&= level >= said.limit;
    fill.style.transform = `scaleX(${said.limit ? level / said.limit : 0})`;
    bar.classList.toggle("empty", level < 1);
    bar.setAttribute("aria-valuenow", Math.floor(level));
    const next = level < said.limit && wait !== null && wait > 0 ? `, next in ${duration(wait)}` : "";
    say(text, `${count(Math.floor(level))} of ${count(said.limit)}${next}`);
  });
  if (!isFull) moving = setTimeout(move, STILL.matches ? 1_000 : 100);
}

// Asks the server again when the next unit should be there, until everything is.
function readAgain() {
  clearTimeout(reading);
  const waits = shown.limits.filter(({ next_unit_us: next }) => next !== null).map(({ next_unit_us: next }) => next);
  if (waits.length === 0) return;
  reading = setTimeout(async () => {
    const { about } = shown;
    if (document.hidden) return readAgain();
    const said = await ask("POST", "v1/peek", about).catch(() => null);
    if (said?.ok && shown?.about === about) showLevels(said.json, about);
  }, Math.max(250, Math.min(LONGEST_US, ...waits) / 1e3 + 20));
}
