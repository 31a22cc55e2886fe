// The events of the last two minutes, and the rates between them. What was before the page was opened comes from the
// server, so that a reload loses nothing.

const SPAN_US = 120e6;
// Rates are averaged over this many events, to be steady enough to read.
const SMOOTH = 3;
export const OUTCOMES = ["allowed", "refused", "shadow_refused", "error"];

const totalsOf = (live, policy) =>
  policy === undefined ? live.totals : live.policies.find(({ name }) => name === policy)?.totals;

// Whether both events come from the same process: they agree on when it started.
export const isSameRun = (a, b) => Math.abs((a.at_us - a.uptime_us) - (b.at_us - b.uptime_us)) < 1e4;

// Totals before the last `back` steps of a series.
function before(totals, columns, back) {
  const length = columns?.allowed.length ?? 0;
  return Object.fromEntries(OUTCOMES.map((name) => [name,
    (columns?.[name] ?? []).slice(Math.max(0, length - back)).reduce((left, count) => left - count, totals[name])]));
}

export class History {
  events = [];

  add(live) {
    const last = this.events.at(-1);
    // A restarted server counts from zero.
    if (last && (!isSameRun(last, live) || live.at_us <= last.at_us)) this.events = [];
    this.events.push(live);
    while (live.at_us - this.events[0].at_us > SPAN_US) this.events.shift();
  }

  // Puts what the server remembers before the first event, as if there had been events.
  seed({ step_us: step, decisions, policies }) {
    const first = this.events[0];
    if (!first || !decisions) return;
    const columns = Object.fromEntries(policies.map((policy) => [policy.name, policy]));
    const earlier = decisions.allowed.map((_, at) => at + 1).filter((back) => back * step < first.uptime_us).map((back) => ({
      at_us: first.at_us - back * step,
      uptime_us: first.uptime_us - back * step,
      totals: before(first.totals, decisions, back),
      policies: first.policies.map(({ name, totals }) => ({ name, totals: before(totals, columns[name], back) })),
    }));
    const { at_us: end } = this.events.at(-1);
    this.events.unshift(...earlier.reverse().filter(({ at_us: at }) => end - at <= SPAN_US));
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

  // The rates of every event but the first.
  points(policy) {
    const events = this.events.filter((live) => totalsOf(live, policy));
    return events.slice(1).map((live, at) => ({ at: live.at_us, values: History.rates(events[at], live, policy) }));
  }

  // The same for a small chart: sums of a few seconds.
  spark(policy, parts = 40) {
    const events = this.events.filter((live) => totalsOf(live, policy));
    const every = Math.max(1, Math.ceil(events.length / parts));
    const some = events.filter((_, at) => (events.length - 1 - at) % every === 0);
    return some.slice(1).map((live, at) => History.rates(some[at], live, policy));
  }
}
