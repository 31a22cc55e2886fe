// Reads the live feed for as long as the page is open. EventSource cannot send a token, so it is read by hand.

import { authorized, problem } from "./api.js";

const LONGEST_WAIT = 10_000;
// The server speaks every second: silence this long means that nobody is there.
const SILENCE = 6_000;

// Calls `onLive` with every event and `onState` with (state, text): good, waiting or bad, and whether the server
// does not let us read. Returns what starts over at once, for a new token.
export function follow(onLive, onState) {
  let abort = new AbortController();
  let wake = () => {};
  let failures = 0;
  let restarted = false;

  const heard = (live) => {
    failures = 0;
    onState("good", "Live");
    onLive(live);
  };

  const longerWait = () => {
    failures += 1;
    return Math.min(LONGEST_WAIT, 250 * 2 ** failures) * (0.5 + Math.random() / 2);
  };

  async function once() {
    abort = new AbortController();
    restarted = false;
    const { signal } = abort;
    const silence = silenceTimer(abort);
    try {
      const headers = authorized({ accept: "text/event-stream" });
      const said = await fetch("v1/live", { headers, cache: "no-store", redirect: "error", signal });
      if (!said.ok) {
        const json = await said.json().catch(() => ({}));
        // Nothing changes by asking again, until somebody types a token.
        const isFinal = said.status === 401 || said.status === 403;
        onState("bad", problem({ status: said.status, json }), isFinal);
        return isFinal ? Infinity : Math.max(retryAfter(said.headers.get("retry-after")), longerWait());
      }
      await read(said.body, (live) => { silence.restart(); heard(live); });
      onState("waiting", "The feed has ended; connecting again…");
    } catch {
      if (!restarted) onState("bad", "The server does not answer; trying again…");
    } finally {
      silence.stop();
    }
    return longerWait();
  }

  (async () => {
    for (;;) {
      const wait = document.hidden ? Infinity : await once();
      if (restarted && !document.hidden) continue;
      await new Promise((resolve) => {
        wake = resolve;
        if (wait !== Infinity) setTimeout(resolve, wait);
      });
    }
  })();

  const startOver = () => {
    restarted = true;
    failures = 0;
    abort.abort();
    wake();
  };
  // A browser has few connections for one server: a page that nobody sees leaves them to others.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) onState("waiting", "Waiting to be looked at");
    startOver();
  });
  return startOver;
}

// Milliseconds. It can be a number of seconds or a date, and need not make sense.
function retryAfter(text) {
  const seconds = /^\d+$/.test(text ?? "") ? Number(text) : (Date.parse(text) - Date.now()) / 1e3;
  return 1_000 * Math.min(60, Math.max(1, Number.isNaN(seconds) ? 5 : seconds));
}

function silenceTimer(abort) {
  let timer;
  const stop = () => clearTimeout(timer);
  const restart = () => { stop(); timer = setTimeout(() => abort.abort(), SILENCE); };
  restart();
  return { stop, restart };
}

async function read(body, onEvent) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const event of events) {
      if (event.startsWith("data: ")) onEvent(JSON.parse(event.slice(6)));
    }
  }
}
