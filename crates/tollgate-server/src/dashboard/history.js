// The events of the last two minutes, and the rates between them.

const SPAN_US = 120e6;
// Numbers are those of so many events, so that they can be read before they change.
const SMOOTH = 3;
export const OUTCOMES = ["allow", "deny", "shadow_deny", "error"];

const none = { allow: 0, deny: 0, shadow_deny: 0, error: 0 };
const totalsOf = (live, policy) =>
  policy === undefined ? live.totals : (live.policies.find(({ name }) => name === policy)?.totals ?? none);

export class History {
  events = [];

  add(live) {
    const last = this.events.at(-1);
    // Another process counts from zero.
    if (last && (live.uptime_us < last.uptime_us || live.at_us <= last.at_us)) this.events = [];
    this.events.push(live);
    while (live.at_us - this.events[0].at_us > SPAN_US) this.events.shift();
  }

  // Decisions between two events. A reload can take a policy away, and then sums shrink.
  static between(a, b, policy) {
    const [before, after] = [totalsOf(a, policy), totalsOf(b, policy)];
    return Object.fromEntries(OUTCOMES.map((name) => [name, Math.max(0, after[name] - before[name])]));
  }

  static rates(a, b, policy) {
    const seconds = (b.at_us - a.at_us) / 1e6;
    const counts = History.between(a, b, policy);
    return Object.fromEntries(OUTCOMES.map((name) => [name, seconds > 0 ? counts[name] / seconds : 0]));
  }

  now(policy) {
    return History.rates(this.events.at(-1 - SMOOTH) ?? this.events[0], this.events.at(-1), policy);
  }

  lately(policy) {
    return History.between(this.events[0], this.events.at(-1), policy);
  }

  // [seconds ago, rates] of every event but the first.
  points() {
    const end = this.events.at(-1)?.at_us;
    return this.events.slice(1).map((live, at) =>
      [(end - live.at_us) / 1e6, History.rates(this.events[at], live)]);
  }
}
