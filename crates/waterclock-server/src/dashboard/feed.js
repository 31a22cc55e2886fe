// Reads the live feed while the page is open, with fetch: EventSource cannot send a token.

import { authorized, problem } from "./api.js";

const LONGEST_WAIT = 10_000;
// The server sends an event every second; after this much silence the connection is considered dead.
const SILENCE = 6_000;

// Calls `onLive` with every event and `onState` with (state, text, mayNotRead); state is good, waiting or bad.
// Returns a function that reconnects at once, for a new token.
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
      const response = await fetch("v1/live", { headers, cache: "no-store", redirect: "error", signal });
      if (!response.ok) {
        const json = await response.json().catch(() => ({}));
        // Retrying does not help until a token is entered.
        const isFinal = response.status === 401 || response.status === 403;
        onState("bad", problem({ status: response.status, json }), isFinal);
        return isFinal ? Infinity : Math.max(retryAfter(response.headers.get("retry-after")), longerWait());
      }
      await read(response.body, (live) => { silence.restart(); heard(live); });
      onState("waiting", "Feed ended; reconnecting…");
    } catch {
      if (!restarted) onState("bad", "Server unreachable; retrying…");
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
  // A browser has few connections per server, so a hidden page closes its feed.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) onState("waiting", "Paused while hidden");
    startOver();
  });
  return startOver;
}

// In milliseconds. The header is a number of seconds, a date, or garbage.
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
