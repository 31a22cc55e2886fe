// Numbers, times and limits as text for people.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const exact = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (number) => (number < 1e6 ? whole : short).format(number);

export function rate(number) {
  return number < 10 ? exact.format(number) : count(number);
}

export const share = (part, all) => (all > 0 ? `${exact.format((100 * part) / all)} %` : "–");

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

// In two units at most. Rounded up by default, so that waiting this long is long enough.
export function duration(us, round = Math.ceil) {
  if (us <= 0) return "now";
  const ms = round(us / 1e3);
  if (ms < 1_000) return `${ms} ms`;
  const tenths = round(us / 1e5);
  if (tenths < 600) return `${exact.format(tenths / 10)} s`;
  const unitOf = (seconds) => UNITS.findIndex(([size]) => seconds >= size);
  const [smaller] = UNITS[unitOf(Math.max(60, us / 1e6)) + 1];
  const seconds = round(us / 1e6 / smaller) * smaller;
  const first = unitOf(seconds);
  return UNITS.slice(first, first + 2)
    .map(([size, unit], at) => [Math.floor(at ? (seconds % UNITS[first][0]) / size : seconds / size), unit])
    .filter(([number]) => number > 0)
    .map(([number, unit]) => `${number} ${unit}`).join(" ");
}

export const clock = (us) => new Date(us / 1e3).toLocaleString();
const sameDay = (us) => new Date(us / 1e3).toDateString() === new Date().toDateString();
export const clockTime = (us) => (sameDay(us) ? new Date(us / 1e3).toLocaleTimeString() : clock(us));

// A duration that is too short for `duration`.
export const latency = (us) => (us < 1_000 ? `${exact.format(us)} µs` : us < 1e6 ? `${exact.format(us / 1e3)} ms` : `${exact.format(us / 1e6)} s`);

// A number of which only bounds are known: exact, or "≥ 970".
export const atLeast = (least, most) => (least === most ? count(least) : `≥ ${count(least)}`);

const PERIODS = { 1e6: "s", 60e6: "min", 3600e6: "h", 86400e6: "d" };
const period = (us) => PERIODS[us] ?? duration(us);
// Of a time in text or in microseconds: "1h" is "h".
const span = (text, us) => text?.replace(/^1(?=[a-z]+$)/, "") ?? period(us);

// A limit of `/v1/policies`, such as "burst: 30/min, capacity 5". Goes by the fields that are there.
// Those of overrides have their times as text.
export function limitText({ name, algorithm, limit, per, per_us, capacity, drip = 1, every, every_us, threshold, lease, lease_us, unit, shadow }) {
  const units = unit ? ` ${unit}` : "";
  const size = capacity === undefined || capacity === limit ? "" : `, capacity ${count(capacity)}`;
  const text = threshold !== undefined ? `${threshold} errors in ${per ?? duration(per_us)}`
    : (lease ?? lease_us) !== undefined ? `${count(limit)}${units} at once`
    : limit !== undefined ? `${count(limit)}${units}/${span(per, per_us)}${size}`
    : `${count(drip)}${units}/${span(every, every_us)}${size}`;
  return `${name === algorithm ? "" : `${name}: `}${text}${shadow ? " (shadow)" : ""}`;
}

// Parses a cost: a number, or several units as in requests=1,tokens=800.
export const costOf = (text) =>
  /^\d+$/.test(text.trim())
    ? Number(text)
    : Object.fromEntries(text.split(",").map((part) => part.split("=")).map(([unit, n]) => [unit.trim(), Number(n)]));
