// Counts over time as bars: numbers under the pointer and under the arrow keys, zoom by dragging, by keys and by buttons.

const AXIS = 24, HEAD = 24, GAP = 14, LEAST_BARS = 4;

// `lanes`: [{ title, height, scale, series: [{ style, values }] }], one above the other; lanes with the same `scale` have the same top.
// `rows`: [{ label, style, values }], what is told about a bar. `values` have a number for each bin.
class Chart {
  constructor(host, { name, from, binUs, bins, lanes, rows, times, legend = [] }) {
    Object.assign(this, { name, from, binUs, bins, lanes, rows, times });
    this.view = [0, bins];
    this.at = null;
    this.svg = draw("svg", { "aria-hidden": "true" });
    this.tip = make("div", { class: "tip", hidden: "" });
    this.plot = make("div", { class: "plot", tabindex: "0", role: "slider", "aria-label": `${name}: arrow keys choose a bar, plus and minus zoom, shift and arrow keys move, Escape shows everything` }, this.svg, this.tip);
    this.words = make("span");
    this.hint = make("span", { class: "hint" });
    const caption = make("p", { class: "caption", "aria-live": "polite" }, this.words, " ", this.hint);
    this.buttons = [
      button("−", () => this.zoom(2), { "aria-label": "Zoom out" }), button("+", () => this.zoom(0.5), { "aria-label": "Zoom in" }),
      button("‹", () => this.move(-0.5), { "aria-label": "Earlier" }), button("›", () => this.move(0.5), { "aria-label": "Later" }),
      button("Reset", () => this.look(0, bins), { class: "reset" }),
    ];
    const head = make("div", { class: "chart-head" },
      make("ul", { class: "legend" }, ...legend.map(([style, label]) => make("li", {}, swatch(style), label))),
      make("div", { class: "controls", role: "group", "aria-label": `Zoom of ${name}` }, ...this.buttons));
    host.replaceChildren(make("figure", { class: "chart" }, head, this.plot, caption));
    this.listen();
    new ResizeObserver(() => this.render()).observe(this.plot);
    this.look(0, bins);
  }

  listen() {
    const on = (type, act) => this.plot.addEventListener(type, act);
    on("pointerdown", (event) => this.grab(event));
    on("pointermove", (event) => this.point(event));
    on("pointerup", (event) => this.drop(event));
    on("pointercancel", () => { this.held = null; this.render(); });
    on("pointerleave", () => { if (this.held == null) this.select(null); });
    on("focusout", () => this.select(null));
    on("keydown", (event) => this.press(event));
  }

  // Shows the bins of a range, at least a few of them.
  look(first, end) {
    const size = Math.min(this.bins, Math.max(LEAST_BARS, Math.round(end - first)));
    const start = Math.max(0, Math.min(this.bins - size, Math.round(first)));
    this.view = [start, start + size];
    this.at = null;
    this.render();
    const isWhole = size === this.bins;
    const [out, into, earlier, later, reset] = this.buttons;
    out.disabled = reset.disabled = isWhole;
    into.disabled = size <= LEAST_BARS;
    earlier.disabled = start === 0;
    later.disabled = start + size === this.bins;
  }

  // What is shown, in words.
  describe() {
    const [first, end] = this.view, zone = this.times.zone();
    const span = `${this.times.show(this.time(first))} – ${this.times.show(this.time(end))}${zone ? ` (${zone})` : ""}`;
    const text = `${span}; each bar is ${duration(this.group * this.binUs)}.`;
    if (this.words.textContent !== text) this.words.textContent = text;
    this.hint.textContent = end - first === this.bins ? "Drag to zoom." : "Reset shows everything.";
  }

  time(bin) { return this.from + bin * this.binUs; }

  zoom(factor) {
    const [first, end] = this.view;
    const middle = this.bars[this.at] === undefined ? (first + end) / 2 : this.bars[this.at] + this.group / 2;
    const size = (end - first) * factor;
    this.look(middle - size / 2, middle + size / 2);
  }

  move(part) {
    const [first, end] = this.view;
    const step = Math.round((end - first) * part);
    this.look(first + step, end + step);
  }

  // Bins are merged until a bar is wide enough to be seen; whole groups, so that bars keep their places when the view moves.
  render() {
    this.width = Math.max(240, this.plot.clientWidth || 960);
    const [first, end] = this.view;
    this.left = this.width < 500 ? 38 : 52;
    this.group = roundGroup(Math.ceil((end - first) / ((this.width - this.left) / 4)), this.binUs);
    this.bars = [];
    for (let bin = first - (first % this.group); bin < end; bin += this.group) this.bars.push(bin);
    const tops = this.tops();
    const height = this.lanes.reduce((sum, lane) => sum + HEAD + lane.height + GAP, 0) + AXIS - GAP;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
    this.svg.replaceChildren();
    this.drawTimes(height);
    let y = 0;
    for (const lane of this.lanes) {
      this.drawLane(lane, y + HEAD, tops.get(lane.scale ?? lane));
      y += HEAD + lane.height + GAP;
    }
    this.chosen = draw("rect", { class: "chosen", y: 0, height: height - AXIS, visibility: "hidden" });
    this.cursor = draw("line", { class: "cursor", y1: HEAD, y2: height - AXIS, visibility: "hidden" });
    this.svg.append(this.chosen, this.cursor);
    this.plot.setAttribute("aria-valuemin", 0);
    this.plot.setAttribute("aria-valuemax", this.bars.length - 1);
    this.describe();
    this.select(this.bars[this.at] === undefined ? null : this.at);
  }

  tops() {
    const tops = new Map();
    for (const lane of this.lanes) {
      const most = Math.max(1, ...this.bars.map((bin) => lane.series.reduce((sum, { values }) => sum + this.sum(values, bin), 0)));
      const scale = lane.scale ?? lane;
      tops.set(scale, Math.max(most, tops.get(scale) ?? 0));
    }
    return tops;
  }

  sum(values, bin) {
    let sum = 0;
    for (let at = Math.max(bin, this.view[0]); at < Math.min(bin + this.group, this.view[1]); at += 1) sum += values[at] ?? 0;
    return sum;
  }

  x(bin) {
    const [first, end] = this.view;
    return this.left + ((Math.max(first, Math.min(end, bin)) - first) / (end - first)) * (this.width - this.left);
  }

  drawTimes(height) {
    const [from, until] = this.view.map((bin) => this.time(bin));
    for (const [at, label] of ticks(from, until, Math.floor(this.width / 95), this.times)) {
      const x = this.x((at - this.from) / this.binUs);
      this.svg.append(draw("line", { x1: x, x2: x, y1: HEAD, y2: height - AXIS + 4 }));
      const place = x > this.width - 40 ? "end" : x < this.left + 30 ? "" : "middle";
      this.svg.append(draw("text", { class: place, x: place === "" ? Math.max(0, x - 20) : x, y: height - 5 }, label));
    }
  }

  drawLane(lane, y, most) {
    const step = roundStep(most, lane.height < 80 ? 2 : 4);
    const top = Math.ceil(most / step) * step;
    const base = y + lane.height;
    this.svg.append(draw("text", { class: "lane", x: this.left, y: y - 9 }, lane.title));
    for (let value = 0; value <= top; value += step) {
      const at = base - (lane.height * value) / top;
      this.svg.append(draw("line", { class: value ? "" : "base", x1: this.left, x2: this.width, y1: at, y2: at }));
      this.svg.append(draw("text", { class: "end", x: this.left - 6, y: at + 4 }, value >= 1e5 ? `${count(value / 1e3)}k` : count(value)));
    }
    const floor = this.bars.map(() => base);
    for (const { style, values } of lane.series) {
      const bars = this.bars.map((bin, index) => {
        const tall = (lane.height * this.sum(values, bin)) / top;
        if (!tall) return "";
        const x = this.x(bin), width = Math.max(1, this.x(bin + this.group) - x - 1), from = floor[index];
        floor[index] -= tall;
        return `M${x.toFixed(1)} ${from.toFixed(2)}v${(-tall).toFixed(2)}h${width.toFixed(1)}V${from.toFixed(2)}z`;
      });
      this.svg.append(draw("path", { class: style, d: bars.join("") }));
    }
  }

  // The pointer, in places of the drawing.
  place(event) {
    const { left, width } = this.plot.getBoundingClientRect();
    return Math.max(this.left, Math.min(this.width, ((event.clientX - left) / width) * this.width));
  }

  binAt(x) {
    const [first, end] = this.view;
    return first + ((x - this.left) / (this.width - this.left)) * (end - first);
  }

  grab(event) {
    if (event.button !== 0) return;
    this.held = this.place(event);
    this.plot.setPointerCapture(event.pointerId);
  }

  point(event) {
    const x = this.place(event);
    if (this.held == null) {
      const bin = Math.floor(this.binAt(x));
      return this.select(Math.min(this.bars.length - 1, Math.floor((bin - this.bars[0]) / this.group)));
    }
    const [from, until] = [this.held, x].sort((a, b) => a - b);
    this.chosen.setAttribute("x", from);
    this.chosen.setAttribute("width", until - from);
    this.chosen.setAttribute("visibility", "visible");
  }

  drop(event) {
    if (this.held == null) return;
    const [from, until] = [this.held, this.place(event)].sort((a, b) => a - b);
    this.held = null;
    this.chosen.setAttribute("visibility", "hidden");
    // A click is no range.
    if (until - from > 5) this.look(Math.floor(this.binAt(from)), Math.ceil(this.binAt(until)));
    else this.point(event);
  }

  press(event) {
    const last = this.bars.length - 1;
    const step = (by) => this.select(Math.max(0, Math.min(last, (this.at ?? (by > 0 ? -1 : last + 1)) + by)));
    const keys = {
      ArrowLeft: () => (event.shiftKey ? this.move(-0.5) : step(-1)), ArrowRight: () => (event.shiftKey ? this.move(0.5) : step(1)),
      Home: () => this.select(0), End: () => this.select(last),
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), Escape: () => this.look(0, this.bins),
    };
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  // Tells the numbers of a bar; none is told without an index.
  select(index) {
    this.at = index;
    const bin = this.bars[index];
    this.tip.hidden = bin === undefined;
    this.cursor.setAttribute("visibility", bin === undefined ? "hidden" : "visible");
    const told = bin ?? this.bars[0];
    const rows = this.rows.map(({ label, style, values, isAlways }) => ({ label, style, isAlways, number: this.sum(values, told) })).filter(({ isAlways, number }) => isAlways || number > 0);
    const when = this.times.show(this.time(Math.max(told, this.view[0])));
    this.plot.setAttribute("aria-valuenow", index ?? 0);
    this.plot.setAttribute("aria-valuetext", `${when}: ${rows.map(({ label, number }) => `${label} ${count(number)}`).join(", ")}`);
    if (bin === undefined) return;
    const x = (this.x(bin) + this.x(bin + this.group)) / 2;
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    const part = (100 * x) / this.width;
    this.tip.style.left = part < 50 ? `${part}%` : "auto";
    this.tip.style.right = part < 50 ? "auto" : `${100 - part}%`;
    this.tip.replaceChildren(make("b", {}, when), ...rows.flatMap(({ label, style, number }) =>
      [make("span", {}, swatch(style), label), make("span", {}, count(number))]));
  }
}

// A chart as small as a word: allowed below, refused above. `bins` are [[index, offered, refused], …].
function sparkline(bins, all) {
  const svg = draw("svg", { class: "spark", viewBox: "0 0 120 20", preserveAspectRatio: "none", "aria-hidden": "true" });
  const groups = Math.min(60, all), size = all / groups;
  const sums = Array.from({ length: groups }, () => [0, 0]);
  for (const [index, offered, refused] of bins) {
    const sum = sums[Math.min(groups - 1, Math.floor(index / size))];
    if (sum) { sum[0] += offered - refused; sum[1] += refused; }
  }
  const most = Math.max(1, ...sums.map(([allowed, refused]) => allowed + refused));
  const width = 120 / groups;
  const bar = (at, from, number) => (number ? `M${(at * width).toFixed(2)} ${(20 - (20 * from) / most).toFixed(2)}v${(-(20 * number) / most).toFixed(2)}h${(width * 0.85).toFixed(2)}v${((20 * number) / most).toFixed(2)}z` : "");
  svg.append(draw("path", { class: "allowed", d: sums.map(([allowed], at) => bar(at, 0, allowed)).join("") }));
  svg.append(draw("path", { class: "refused", d: sums.map(([allowed, refused], at) => bar(at, allowed, refused)).join("") }));
  return svg;
}
