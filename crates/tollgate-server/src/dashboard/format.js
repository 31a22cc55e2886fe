// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const exact = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (number) => (number < 1e6 ? whole : short).format(number);

export function rate(number) {
  return number < 10 ? exact.format(number) : count(number);
}

export const share = (part, all) => (all > 0 ? `${exact.format((100 * part) / all)} %` : "–");

export function duration(us) {
  const seconds = us / 1e6;
  if (seconds === 0) return "now";
  if (seconds < 1) return `${Math.ceil(us / 1e3)} ms`;
  if (seconds < 60) return `${exact.format(Math.ceil(seconds * 10) / 10)} s`;
  const all = Math.ceil(seconds);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => all >= size);
  return parts.slice(first, first + 2)
    .map(([size, unit], at) => [Math.floor(at ? (all % parts[first][0]) / size : all / size), unit])
    .filter(([number]) => number > 0)
    .map(([number, unit]) => `${number} ${unit}`).join(" ");
}

export const clock = (us) => new Date(us / 1e3).toLocaleString();
