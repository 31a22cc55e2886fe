// A chart over time: stacked areas or lines, with gridlines, and with numbers under the pointer or the arrow keys.

import { make, setText } from "./dom.js";
import { clockTime, duration } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const draw = (tag, attributes) => {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

// The next round number above.
export function top(most, least = 1) {
  const above = Math.max(most, least);
  const size = 10 ** Math.floor(Math.log10(above));
  return [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].map((step) => step * size).find((step) => step >= above * 0.9999);
}

// `series` is [[name, label, class], …]; `format` turns a number into text; `most` fixes the scale.
export class Chart {
  points = [];
  at = null;

  constructor(figure, { series, format, name, isStacked = true, most, least }) {
    Object.assign(this, { series, format, name, isStacked, most, least });
    this.svg = draw("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img" });
    for (const y of [25, 50, 75]) this.svg.append(draw("line", { class: "grid", x1: 0, x2: 100, y1: y, y2: y }));
    this.paths = series.map(([, , style]) => draw("path", { class: isStacked ? style : `${style} line` }));
    this.cursor = draw("line", { class: "cursor", y1: 0, y2: 100, visibility: "hidden" });
    this.svg.append(...this.paths, this.cursor);
    this.scale = make("div", { class: "scale", "aria-hidden": "true" }, ...["", "", ""].map(() => make("span")));
    this.tip = make("div", { class: "tip", hidden: "" });
    this.plot = make("div", { class: "plot", tabindex: 0, role: "slider", "aria-label": `${name}: point in time`, "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0, "aria-valuetext": "no data yet" }, this.svg, this.scale, this.tip);
    this.from = make("span");
    this.words = make("span", { class: "unseen chart-text" });
    this.plot.addEventListener("pointermove", (event) => this.point(event.clientX));
    this.plot.addEventListener("pointerdown", (event) => this.point(event.clientX));
    this.plot.addEventListener("pointerleave", () => this.select(null));
    this.plot.addEventListener("focusout", () => this.select(null));
    this.plot.addEventListener("keydown", (event) => this.press(event));
    figure.replaceChildren(this.plot, make("figcaption", {}, this.from, this.words, make("span", {}, "now")));
    this.clear();
  }

  // `points` are [{ at, values }], oldest first, `at` in microseconds; the chart ends at `end`.
  show(points, end, span) {
    const chosen = this.points[this.at]?.at;
    Object.assign(this, { points, end, span });
    const sums = points.map(({ values }) => this.series.map(([name]) => values[name] ?? 0));
    const highest = Math.max(0, ...sums.map((of) => (this.isStacked ? of.reduce((a, b) => a + b, 0) : Math.max(...of))));
    this.top = this.most ?? top(highest, this.least);
    const floor = points.map(() => 0);
    this.series.forEach(([name], at) => {
      this.paths[at].setAttribute("d", this.isStacked ? this.area(name, floor) : this.line(name));
    });
    [1, 0.5, 0].forEach((part, at) => setText(this.scale.children[at], points.length || part === 0 ? this.format(this.top * part) : ""));
    setText(this.from, `${duration(span)} ago`);
    this.plot.setAttribute("aria-valuemax", Math.max(0, points.length - 1));
    this.svg.setAttribute("aria-label", this.describe(highest));
    setText(this.words, this.describe(highest));
    const again = chosen === undefined ? -1 : points.findIndex(({ at }) => Math.abs(at - chosen) < 5e5);
    this.select(again < 0 ? null : again);
  }

  clear() {
    this.show([], 0, this.span ?? 120e6);
  }

  x(at) { return 100 * (1 - (this.end - at) / this.span); }
  y(value) { return 100 * (1 - Math.min(1, value / this.top)); }

  area(name, floor) {
    if (!this.points.some(({ values }) => values[name] > 0)) return "";
    const at = (value, index) => `${this.x(this.points[index].at).toFixed(2)},${this.y(value).toFixed(2)}`;
    const below = floor.map(at).reverse();
    this.points.forEach(({ values }, index) => { floor[index] += values[name] ?? 0; });
    return `M${floor.map(at).join("L")}L${below.join("L")}Z`;
  }

  // A line has a gap where there is no number.
  line(name) {
    let pen = "M";
    return this.points.map(({ at, values }) => {
      if (values[name] === null || values[name] === undefined) { pen = "M"; return ""; }
      const step = `${pen}${this.x(at).toFixed(2)},${this.y(values[name]).toFixed(2)}`;
      pen = "L";
      return step;
    }).join("");
  }

  text(values) {
    return this.series.map(([name, label]) => `${label} ${values[name] === null || values[name] === undefined ? "–" : this.format(values[name])}`);
  }

  // The chart in words, for screen readers.
  describe(highest) {
    const last = this.points.at(-1);
    if (!last) return `${this.name}: no data yet.`;
    return `${this.name}, the last ${duration(this.end - this.points[0].at || 1e6)}: at most ${this.format(highest)}; now ${this.text(last.values).join(", ")}.`;
  }

  point(clientX) {
    const { left, width } = this.plot.getBoundingClientRect();
    const at = this.end - this.span * (1 - (clientX - left) / width);
    let nearest = null;
    this.points.forEach((point, index) => {
      if (nearest === null || Math.abs(point.at - at) < Math.abs(this.points[nearest].at - at)) nearest = index;
    });
    this.select(nearest);
  }

  press(event) {
    const last = this.points.length - 1;
    const to = { ArrowLeft: (this.at ?? last + 1) - 1, ArrowRight: (this.at ?? last) + 1, Home: 0, End: last }[event.key];
    if (event.key === "Escape") this.select(null);
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.select(Math.max(0, Math.min(last, to)));
  }

  select(index) {
    this.at = index;
    const point = this.points[index];
    this.tip.hidden = !point;
    this.cursor.setAttribute("visibility", point ? "visible" : "hidden");
    const last = this.points.at(-1);
    const told = point ?? last;
    this.plot.setAttribute("aria-valuenow", told ? this.points.indexOf(told) : 0);
    this.plot.setAttribute("aria-valuetext", told ? `${clockTime(told.at)}: ${this.text(told.values).join(", ")}` : "no data yet");
    if (!point) return;
    const x = Math.max(0, Math.min(100, this.x(point.at)));
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    this.tip.style.left = x < 50 ? `${x}%` : "auto";
    this.tip.style.right = x < 50 ? "auto" : `${100 - x}%`;
    this.tip.replaceChildren(make("b", {}, clockTime(point.at)), ...this.text(point.values).map((line, at) =>
      make("span", {}, make("i", { class: this.series[at][2] }), line)));
  }
}

// A chart as small as a word: allowed below, refused above.
export function sparkline(points) {
  const svg = draw("svg", { class: "spark", viewBox: "0 0 100 20", preserveAspectRatio: "none", "aria-hidden": "true" });
  const most = Math.max(1, ...points.map(({ allowed, refused, shadow_refused }) => allowed + refused + shadow_refused));
  const x = (at) => (points.length > 1 ? (100 * at) / (points.length - 1) : 100).toFixed(1);
  const floor = points.map(() => 0);
  for (const [name, style] of [["allowed", "c-allow"], ["shadow_refused", "c-shadow"], ["refused", "c-deny"]]) {
    if (points.length < 2 || !points.some((point) => point[name] > 0)) continue;
    const edge = (value, at) => `${x(at)},${(20 * (1 - value / most)).toFixed(1)}`;
    const below = floor.map(edge).reverse();
    points.forEach((point, at) => { floor[at] += point[name]; });
    svg.append(draw("path", { class: style, d: `M${floor.map(edge).join("L")}L${below.join("L")}Z` }));
  }
  return svg;
}
