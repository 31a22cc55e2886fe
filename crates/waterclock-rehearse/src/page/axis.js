// Round numbers up an axis, and times along one.

// 1, 2 or 5 times a power of ten, so that at most `most` steps reach the top.
function roundStep(top, most) {
  for (let power = 1; ; power *= 10) {
    for (const digit of [1, 2, 5]) if (Math.ceil(top / (digit * power)) <= most) return digit * power;
  }
}

const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((n) => n * 1e3), ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((n) => n * MINUTE), ...[1, 2, 7, 14, 28, 91, 182, 364, 728, 3640].map((n) => n * DAY),
];

// How many bins are merged, at least so many: whole seconds, as times of logs are, or else bars would hold more and fewer of them by turns.
function roundGroup(least, binUs) {
  if (!(least > 1)) return 1;
  if (binUs >= SECOND || least * binUs < SECOND) return least;
  for (let group = least; group < least + SECOND / binUs; group += 1) if ((group * binUs) % SECOND === 0) return group;
  return least;
}

// Where the ticks of a span stand, at most `most` of them, and their words. Steps of hours and days follow the reader's clock.
function ticks(from, until, most, times) {
  const span = until - from;
  const step = STEPS.find((step) => span / step <= most) ?? span / most;
  const shift = times.areDates ? new Date(from / 1e3).getTimezoneOffset() * MINUTE : 0;
  const found = [];
  let day = null;
  for (let at = Math.ceil((from - shift) / step) * step + shift; at <= until && found.length <= most + 1; at += step) {
    const today = times.show(at, "day");
    found.push([at, tickWords(at, step, span, times, today !== day)]);
    day = today;
  }
  return found;
}

// The day is named once, and where it changes.
function tickWords(at, step, span, times, isNewDay) {
  if (!times.areDates) return duration(at) || "0 s";
  if (span >= 300 * DAY) return times.show(at, "year");
  if (step >= DAY) return times.show(at, "day");
  if (isNewDay) return times.show(at, "moment");
  return times.show(at, step >= MINUTE ? "minute" : step >= SECOND ? "second" : "milli");
}
