// Decisions per second over the last two minutes: what was allowed, refused in shadow, and refused, one
// on top of the other.

import { by, say } from "./dom.js";
import { rate } from "./format.js";

const [WIDTH, HEIGHT] = [120, 40];
const LAYERS = [["allow", "c-allow"], ["shadow_deny", "c-shadow"], ["deny", "c-deny"]];

const paths = LAYERS.map(([, name]) => {
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("class", name);
  by("chart").append(path);
  return path;
});

// The next round number.
function top(most) {
  const size = 10 ** Math.floor(Math.log10(Math.max(most, 1)));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * size).find((step) => step >= most);
}

// The highest point of the picture.
const highest = (points) => Math.max(0, ...points.map(([, rates]) => LAYERS.reduce((sum, [name]) => sum + rates[name], 0)));

export function draw(points) {
  const scale = top(highest(points));
  const floor = points.map(() => 0);
  LAYERS.forEach(([name], layer) => {
    const at = (value, index) =>
      `${(WIDTH - points[index][0]).toFixed(1)},${(HEIGHT * (1 - value / scale)).toFixed(2)}`;
    const below = floor.map(at).reverse();
    points.forEach(([, rates], index) => { floor[index] += rates[name]; });
    const above = floor.map(at);
    const isThere = points.some(([, rates]) => rates[name] > 0);
    paths[layer].setAttribute("d", isThere ? `M${above.join("L")}L${below.join("L")}Z` : "");
  });
  say(by("chart-top"), `${rate(scale)}/s`);
}

// The same in words, now and then: it changes all the time.
export function describe(points) {
  const [, now] = points.at(-1);
  const seconds = Math.round(points[0][0]);
  say(by("chart-text"), `In the last ${seconds} seconds: at most ${rate(highest(points))} decisions per second; ` +
    `now ${rate(now.allow)} allowed, ${rate(now.deny)} refused, ${rate(now.shadow_deny)} refused in shadow.`);
}

export function forgetChart() {
  draw([]);
  for (const id of ["chart-top", "chart-text"]) say(by(id), "");
}
