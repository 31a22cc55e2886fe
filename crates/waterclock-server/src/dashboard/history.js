// The events of the last two minutes, and the rates between them.

const SPAN_US = 120e6;
// Rates are averaged over this many events, to be steady enough to read.
const SMOOTH = 3;
export const OUTCOMES = ["allowed", "refused", "shadow_refused", "error"];

const totalsOf = (live, policy) =>
  policy === undefined ? live.totals : live.policies.find(({ name }) => name === policy)?.totals;

// Whether both events come from the same process: they agree on when it started.
export const isSameRun = (a, b) => Math.abs((a.at_us - a.uptime_us) - (b.at_us - b.uptime_us)) < 1e4;

export class History {
  events = [];

  add(live) {
    const last = this.events.at(-1);
    // A restarted server counts from zero.
    if (last && (!isSameRun(last, live) || live.at_us <= last.at_us)) this.events = [];
    this.events.push(live);
    while (live.at_us - this.events[0].at_us > SPAN_US) this.events.shift();
  }

  clear() {
    this.events = [];
  }

  // Decisions between two events that both include the policy.
  static between(a, b, policy) {
    const [before, after] = [totalsOf(a, policy), totalsOf(b, policy)];
    return Object.fromEntries(OUTCOMES.map((name) => [name, Math.max(0, after[name] - before[name])]));
  }

  static rates(a, b, policy) {
    const seconds = (b.at_us - a.at_us) / 1e6;
    const counts = History.between(a, b, policy);
    return Object.fromEntries(OUTCOMES.map((name) => [name, seconds > 0 ? counts[name] / seconds : 0]));
  }

  // The first and last event that include a policy; null if there are not two. A policy that a reload restored
  // continues its count.
  static ends(events, policy) {
    const first = events.find((live) => totalsOf(live, policy));
    const last = events.at(-1);
    return first === undefined || first === last ? null : [first, last, policy];
  }

  now(policy) {
    const ends = History.ends(this.events.slice(-1 - SMOOTH), policy);
    return ends && History.rates(...ends);
  }

  lately(policy) {
    const ends = History.ends(this.events, policy);
    return ends && History.between(...ends);
  }

  // [seconds ago, rates] of every event but the first.
  points() {
    const end = this.events.at(-1)?.at_us;
    return this.events.slice(1).map((live, at) =>
      [(end - live.at_us) / 1e6, History.rates(this.events[at], live)]);
  }
}
