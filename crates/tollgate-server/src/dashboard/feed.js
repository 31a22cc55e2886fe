// Reads the live feed for as long as the page is open. EventSource cannot send a token, so it is read by hand.

import { authorized, problem } from "./api.js";

const LONGEST_WAIT = 10_000;
// The server speaks every second: silence this long means that nobody is there.
const SILENCE = 6_000;

// Calls `onLive` with every event and `onState` with (state, text): good, waiting or bad. Returns what
// starts over at once, for a new token.
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
        onState("bad", problem({ status: said.status, json }));
        // Nothing changes by asking again, until somebody types a token.
        const isFinal = said.status === 401 || said.status === 403;
        return isFinal ? Infinity : 1_000 * Number(said.headers.get("retry-after") ?? 5);
      }
      await read(said.body, (live) => { silence.restart(); heard(live); });
      onState("waiting", "The feed has ended; connecting again…");
    } catch {
      if (!restarted) onState("bad", "The server does not answer; trying again…");
    } finally {
      silence.stop();
    }
    failures += 1;
    return Math.min(LONGEST_WAIT, 250 * 2 ** failures) * (0.5 + Math.random() / 2);
  }

  (async () => {
    for (;;) {
      const wait = await once();
      if (restarted) continue;
      await new Promise((resolve) => {
        wake = resolve;
        if (wait !== Infinity) setTimeout(resolve, wait);
      });
    }
  })();

  return () => {
    restarted = true;
    failures = 0;
    abort.abort();
    wake();
  };
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
