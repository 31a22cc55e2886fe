// What goes for a single key: look, forget, give back, block, exempt, other limits.

import { ask, noAnswer, problem } from "./api.js";
import { by, keyText, say } from "./dom.js";
import { costOf, duration } from "./format.js";
import { isBlocked, showLevels } from "./levels.js";
import { subject } from "./subject.js";

const limits = () => by("own").value.split(",").map((text) => text.trim()).filter(Boolean);

const DEEDS = {
  look: ["GET", "", () => undefined, "Looked at"],
  reset: ["DELETE", "", () => undefined, "Forgot everything about"],
  grant: ["POST", "/grant", () => ({ cost: costOf(by("grant").value) }), "Gave units back to"],
  block: ["PUT", "/override", () => ({ block: true }), "Blocked"],
  exempt: ["PUT", "/override", () => ({ exempt: true }), "Exempted"],
  limits: ["PUT", "/override", () => ({ limits: limits() }), "Gave limits of its own to"],
  takeback: ["DELETE", "/override", () => undefined, "The policy goes again for"],
};

const EXCEPTIONS = { block: "blocked", exempt: "exempt", override: "under limits of its own" };

// The key as the server writes it: only that tells how fields make one.
async function keyOf(about) {
  if (about.key !== undefined) return about.key;
  const said = await ask("POST", "v1/peek", about);
  if (!said.ok) throw new Error(problem(said));
  return said.json.key;
}

async function perform(deed) {
  const [method, path, body, words] = DEEDS[deed];
  const about = subject();
  const key = await keyOf(about);
  // No path can end in these.
  if (["", ".", ".."].includes(key)) throw new Error("A key that is empty or only dots cannot be named in a path.");
  const place = `v1/policies/${encodeURIComponent(about.policy)}/keys/${encodeURIComponent(key)}${path}`;
  const said = await ask(method, place, body());
  if (!said.ok) throw new Error(problem(said));
  showLevels(said.json, about);
  const { remaining, limit, exception, reset_after_us: reset } = said.json;
  // Some limits count no units.
  const of = limit === null ? "" : ` of ${limit}`;
  const left = remaining === null || isBlocked(said.json) ? "" : ` It has ${remaining}${of} left${reset ? `, all of it in ${duration(reset)}` : ""}.`;
  by("admin-said").replaceChildren(`${words} `, keyText(key), `.${left}${exception ? ` It is ${EXCEPTIONS[exception]}.` : ""}`);
}

export function startAdministration() {
  by("admin").addEventListener("submit", (event) => event.preventDefault());
  by("admin").addEventListener("click", async (event) => {
    const deed = event.target.dataset?.do;
    if (!deed || (deed === "grant" && !by("grant").reportValidity())) return;
    say(by("admin-said"), "…");
    try {
      await perform(deed);
    } catch (error) {
      say(by("admin-said"), error instanceof TypeError ? noAnswer(error) : error.message);
    }
  });
}
