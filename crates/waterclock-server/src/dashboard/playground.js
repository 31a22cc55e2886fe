// Sends checks to a policy and shows each decision.

import { request, hasToken, unreachable, problem } from "./api.js";
import { by, keyText, make, setText } from "./dom.js";
import { costOf, duration } from "./format.js";
import { isBlocked, showLevels } from "./levels.js";
import { showKeyFields, subject } from "./subject.js";

const LONGEST_RUN_MS = 30_000;
const MOST_LINES = 50;
let run = null;

// The default cost, 1, is left out.
const checkBody = () => ({ ...subject(), ...(by("cost").value === "1" ? {} : { cost: costOf(by("cost").value) }) });
const isNothing = (granted) => (typeof granted === "object" ? Object.values(granted) : [granted]).every((n) => n === 0);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function fire(about) {
  const response = await request("POST", "v1/check", about);
  if (response.json.limits === undefined) throw new Error(problem(response));
  const { cost, ...target } = about;
  showLevels(response.json, target);
  log(response.json);
  showAnswer(response);
  return response.json;
}

function log(decision) {
  const inShadow = decision.shadow_refused_by ?? [];
  const kind = !decision.allowed && isNothing(decision.granted) ? "no" : inShadow.length ? "maybe" : "yes";
  const names = [...decision.refused_by, ...inShadow].join(", ");
  const words = {
    yes: decision.granted < decision.cost ? `✓ partly allowed, ${decision.granted} of ${decision.cost}` : "✓ allowed",
    maybe: `✓ allowed, shadow-refused by ${names}`,
    no: `✕ refused${names ? ` by ${names}` : ""}`,
  }[kind];
  const left = decision.remaining === null || isBlocked(decision) ? "" : `, ${decision.remaining} left`;
  const retry = kind !== "no" ? "" : decision.retry_after_us === null ? ", will never pass" : `, retry in ${duration(decision.retry_after_us)}`;
  const source = decision.source === "authoritative" ? "" : ` (source: ${decision.source})`;
  by("log").prepend(make("li", { class: kind }, `${words}${left}${retry}${source} `, keyText(decision.key)));
  while (by("log").children.length > MOST_LINES) by("log").lastChild.remove();
}

function showAnswer({ status, headers }) {
  setText(by("answer"), [`status: ${status}`, ...[...headers].map(([name, value]) => `${name}: ${value}`)].join("\n"));
}

async function start() {
  const how = new FormData(by("play")).get("how");
  const about = checkBody();
  const mine = run = { isOn: true };
  const counts = { yes: 0, no: 0 };
  let last;
  const one = async () => {
    last = await fire(about);
    counts[last.allowed || !isNothing(last.granted) ? "yes" : "no"] += 1;
  };
  if (how !== "once") {
    setText(by("verdict"), "Running…");
    running(true);
  }
  try {
    if (how === "once") await one();
    if (how === "burst") for (let n = Number(by("burst").value); n > 0 && mine.isOn; n -= 1) await one();
    if (how === "every") {
      const pause = Math.max(50, Number(by("every").value));
      const end = performance.now() + LONGEST_RUN_MS;
      for (let at = performance.now(); mine.isOn && at < end; at += pause) {
        await sleep(at - performance.now());
        if (mine.isOn) await one();
      }
    }
    setText(by("verdict"), how === "once" ? verdict(last) : `${counts.yes} allowed, ${counts.no} refused.`);
  } catch (error) {
    setText(by("verdict"), error instanceof TypeError ? unreachable(error) : error.message);
  } finally {
    if (run === mine) { run = null; running(false); }
  }
}

function verdict({ allowed, granted, remaining, retry_after_us: retry }) {
  if (allowed || !isNothing(granted)) return remaining === null ? "Allowed." : `Allowed, ${remaining} left.`;
  return retry === null ? "Refused; it will never pass." : `Refused, retry in ${duration(retry)}.`;
}

export function clearPlayground() {
  if (run) run.isOn = false;
  for (const id of ["verdict", "log", "answer"]) by(id).replaceChildren();
}

function running(isOn) {
  // Move the focus along: hiding the focused button would lose it.
  const [from, to] = isOn ? [by("fire"), by("stop")] : [by("stop"), by("fire")];
  const isThere = document.activeElement === from;
  by("fire").hidden = isOn;
  by("stop").hidden = !isOn;
  if (isThere) to.focus({ preventScroll: true });
}

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

export function curlOf(body) {
  const url = new URL("v1/check", location.href).href;
  const token = hasToken() ? ` -H "Authorization: Bearer $TOKEN"` : "";
  return `curl -i ${quoted(url)}${token} -d ${quoted(JSON.stringify(body))}`;
}

const showCurl = () => setText(by("curl"), curlOf(checkBody()));

export function startPlayground() {
  by("play").addEventListener("submit", (event) => { event.preventDefault(); if (!run) start(); });
  by("stop").addEventListener("click", () => { if (run) run.isOn = false; });
  by("policy").addEventListener("change", () => showKeyFields());
  for (const kind of ["input", "change"]) by("play").addEventListener(kind, showCurl);
  // Typing a number selects its radio button.
  for (const id of ["burst", "every"]) {
    by(id).addEventListener("input", () => { by(id).closest("label").querySelector("[type=radio]").checked = true; });
  }
  showCurl();
}

export { showCurl };
