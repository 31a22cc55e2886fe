// Fires checks at a policy and shows what comes of each.

import { ask, hasToken, noAnswer, problem } from "./api.js";
import { by, keyText, make, say } from "./dom.js";
import { costOf, duration } from "./format.js";
import { isBlocked, showLevels } from "./levels.js";
import { askForKey, subject } from "./subject.js";

const LONGEST_RUN_MS = 30_000;
const MOST_LINES = 50;
let run = null;

// One request goes without saying.
const asked = () => ({ ...subject(), ...(by("cost").value === "1" ? {} : { cost: costOf(by("cost").value) }) });
const isNothing = (granted) => (typeof granted === "object" ? Object.values(granted) : [granted]).every((n) => n === 0);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function fire(about) {
  const said = await ask("POST", "v1/check", about);
  if (said.json.limits === undefined) throw new Error(problem(said));
  const { cost, ...whom } = about;
  showLevels(said.json, whom);
  log(said.json);
  showAnswer(said);
  return said.json;
}

function log(decision) {
  const inShadow = decision.shadow_refused_by ?? [];
  const kind = !decision.allowed && isNothing(decision.granted) ? "no" : inShadow.length ? "maybe" : "yes";
  const names = [...decision.refused_by, ...inShadow].join(", ");
  const words = {
    yes: decision.granted < decision.cost ? `✓ allowed in part, ${decision.granted} of ${decision.cost}` : "✓ allowed",
    maybe: `✓ allowed, refused in shadow by ${names}`,
    no: `✕ refused${names ? ` by ${names}` : ""}`,
  }[kind];
  const left = decision.remaining === null || isBlocked(decision) ? "" : `, ${decision.remaining} left`;
  const retry = kind !== "no" ? "" : decision.retry_after_us === null ? ", no wait helps" : `, retry in ${duration(decision.retry_after_us)}`;
  const source = decision.source === "authoritative" ? "" : ` (decided by: ${decision.source})`;
  by("log").prepend(make("li", { class: kind }, `${words}${left}${retry}${source} `, keyText(decision.key)));
  while (by("log").children.length > MOST_LINES) by("log").lastChild.remove();
}

function showAnswer({ status, headers }) {
  say(by("answer"), [`status: ${status}`, ...[...headers].map(([name, value]) => `${name}: ${value}`)].join("\n"));
}

async function start() {
  const how = new FormData(by("play")).get("how");
  const about = asked();
  const mine = run = { isOn: true };
  const counts = { yes: 0, no: 0 };
  let last;
  const one = async () => {
    last = await fire(about);
    counts[last.allowed || !isNothing(last.granted) ? "yes" : "no"] += 1;
  };
  if (how !== "once") {
    say(by("verdict"), "Running…");
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
    say(by("verdict"), how === "once" ? verdict(last) : `${counts.yes} allowed, ${counts.no} refused.`);
  } catch (error) {
    say(by("verdict"), error instanceof TypeError ? noAnswer(error) : error.message);
  } finally {
    if (run === mine) { run = null; running(false); }
  }
}

function verdict({ allowed, granted, remaining, retry_after_us: retry }) {
  if (allowed || !isNothing(granted)) return remaining === null ? "Allowed." : `Allowed, ${remaining} left.`;
  return retry === null ? "Refused, and no wait helps." : `Refused, retry in ${duration(retry)}.`;
}

export function forgetPlayground() {
  if (run) run.isOn = false;
  for (const id of ["verdict", "log", "answer"]) by(id).replaceChildren();
}

function running(isOn) {
  // Whoever stood on the one button stands on the other: one that is gone would lose them their place.
  const [from, to] = isOn ? [by("fire"), by("stop")] : [by("stop"), by("fire")];
  const isThere = document.activeElement === from;
  by("fire").hidden = isOn;
  by("stop").hidden = !isOn;
  if (isThere) to.focus({ preventScroll: true });
}

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function showCurl() {
  const url = new URL("v1/check", location.href).href;
  const token = hasToken() ? ` -H "Authorization: Bearer $TOKEN"` : "";
  say(by("curl"), `curl -i ${quoted(url)}${token} -d ${quoted(JSON.stringify(asked()))}`);
}

export function startPlayground() {
  by("play").addEventListener("submit", (event) => { event.preventDefault(); if (!run) start(); });
  by("stop").addEventListener("click", () => { if (run) run.isOn = false; });
  by("policy").addEventListener("change", () => askForKey());
  for (const kind of ["input", "change"]) by("play").addEventListener(kind, showCurl);
  // Whoever types a number means that choice.
  for (const id of ["burst", "every"]) {
    by(id).addEventListener("input", () => { by(id).closest("label").querySelector("[type=radio]").checked = true; });
  }
  by("copy").addEventListener("click", async () => {
    // Pages that came without TLS from elsewhere may not write to the clipboard, but people can.
    getSelection().selectAllChildren(by("curl"));
    await navigator.clipboard?.writeText(by("curl").textContent).then(() => say(by("copy"), "Copied"), () => {});
    setTimeout(() => say(by("copy"), "Copy"), 2_000);
  });
  showCurl();
}

export { showCurl };
