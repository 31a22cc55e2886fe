// Decisions per second over the last two minutes: allowed, shadow-refused and refused, stacked.

import { by, setText } from "./dom.js";
import { rate } from "./format.js";

const [WIDTH, HEIGHT] = [120, 40];
const LAYERS = [["allowed", "c-allow"], ["shadow_refused", "c-shadow"], ["refused", "c-deny"]];

const paths = LAYERS.map(([, name]) => {
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("class", name);
  by("chart").append(path);
  return path;
});

// The next round number above.
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
  setText(by("chart-top"), `${rate(scale)}/s`);
}

// The chart in words, for screen readers.
export function describe(points) {
  const [, now] = points.at(-1);
  const seconds = Math.round(points[0][0]);
  setText(by("chart-text"), `In the last ${seconds} seconds: at most ${rate(highest(points))} decisions per second; ` +
    `now ${rate(now.allowed)} allowed, ${rate(now.refused)} refused, ${rate(now.shadow_refused)} shadow-refused.`);
}

export function clearChart() {
  draw([]);
  for (const id of ["chart-top", "chart-text"]) setText(by(id), "");
}
