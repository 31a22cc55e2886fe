// What other numbers of a limit would have refused: a curve, and a slider that says it for one of them.

const CURVE_HEIGHT = 170;

class Curve {
  constructor(host, { limit, current, start, clients, checks, points }, isOnly) {
    Object.assign(this, { limit, current, clients, checks, points, isOnly });
    this.says = make("p", { class: "says", "aria-live": "polite" });
    this.kinds = make("p", { class: "muted small" });
    this.svg = draw("svg", { "aria-hidden": "true" });
    this.slider = make("input", { type: "range", min: 0, max: this.points.length - 1, step: 1, value: current ?? start ?? 0, "aria-label": `Another number for ${this.limit}`, oninput: () => { this.show(); this.tell(); } });
    this.toml = copyable("");
    const legend = make("ul", { class: "legend" }, make("li", {}, swatch("clients"), "clients refused at least once"), make("li", {}, swatch("checks"), "checks refused"));
    host.replaceChildren(make("h3", {}, visible(this.limit)), this.says, this.kinds,
      make("div", { class: "chart-head" }, legend), this.svg, this.slider,
      make("div", { class: "ends" }, make("span", {}, `stricter: ${this.points[0].words}`), make("span", {}, `looser: ${this.points.at(-1).words}`)),
      this.toml.element);
    new ResizeObserver(() => this.render()).observe(host);
    this.render();
  }

  show() {
    const index = Number(this.slider.value), point = this.points[index];
    const text = `At ${point.words}${index === this.current ? " (now)" : ""}: ${share(point.clients_refused, this.clients)} of clients, ${share(point.checks_refused, this.checks)} of checks refused`;
    this.says.textContent = text;
    this.slider.setAttribute("aria-valuetext", text);
    this.kinds.textContent = this.describe(point);
    this.toml.code.textContent = point.toml;
    const x = this.x(index);
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    for (const [dot, part] of [[this.dots[0], point.clients_refused / this.clients], [this.dots[1], point.checks_refused / this.checks]]) {
      dot.setAttribute("cx", x);
      dot.setAttribute("cy", this.y(part || 0));
    }
  }

  // The line below the headline says what is tried, until the slider is back where it was.
  tell() {
    const line = by("change");
    if (!line) return;
    line.dataset.told ??= line.textContent;
    const index = Number(this.slider.value), { words, clients_refused: refused, checks_refused: checks } = this.points[index];
    const what = this.isOnly ? words : `${visible(this.limit)} alone at ${words}`;
    line.textContent = index === this.current ? line.dataset.told
      : `With ${what}: ${share(checks, this.checks)} of checks refused; ${count(refused)} of ${counted(this.clients, "client")}.`;
  }

  describe({ clients_refused: refused, checks_refused: checks, kinds }) {
    if (!refused) return "No client would have been refused.";
    const text = `${counted(refused, "client")} of ${count(this.clients)}, ${counted(checks, "check")} of ${count(this.checks)}`;
    const known = [[kinds?.one_agent, "with few user agents, or mostly one"], [kinds?.many_agents, "with many user agents, such as shared addresses"]].filter(([number]) => number > 0);
    return `${text}${known.length ? `; of these clients ${known.map(([number, words]) => `${count(number)} ${words}`).join(", ")}` : ""}.`;
  }

  // The slider's thumb stands below the point that it names.
  x(index) {
    const thumb = 8, last = Math.max(1, this.points.length - 1);
    return thumb + (index / last) * (this.width - 2 * thumb);
  }

  y(part) { return 8 + (CURVE_HEIGHT - 8) * (1 - part / this.top); }

  render() {
    this.width = Math.max(240, this.svg.parentElement.clientWidth || 900);
    const parts = [["clients", (point) => point.clients_refused / this.clients || 0], ["checks", (point) => point.checks_refused / this.checks || 0]];
    const most = Math.max(0.001, ...this.points.flatMap((point) => parts.map(([, of]) => of(point))));
    this.top = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1].find((top) => top >= most) ?? 1;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${CURVE_HEIGHT + 6}`);
    this.svg.replaceChildren();
    for (const part of [0, 0.5, 1]) {
      const y = this.y(part * this.top);
      this.svg.append(draw("line", { class: part ? "" : "base", x1: 0, x2: this.width, y1: y, y2: y }));
      if (part) this.svg.append(draw("text", { class: "end", x: this.width, y: y + 13 }, `${+(100 * part * this.top).toPrecision(2)} %`));
    }
    if (this.current !== null && this.current !== undefined) {
      const x = this.x(this.current);
      this.svg.append(draw("line", { class: "now", x1: x, x2: x, y1: 8, y2: CURVE_HEIGHT }));
      this.svg.append(draw("text", { class: x > this.width / 2 ? "end" : "", x: x > this.width / 2 ? x - 5 : x + 5, y: 18 }, `now: ${this.points[this.current].words}`));
    }
    for (const [style, of] of parts) {
      this.svg.append(draw("path", { class: `line ${style}`, d: `M${this.points.map((point, index) => `${this.x(index).toFixed(1)} ${this.y(of(point)).toFixed(1)}`).join("L")}` }));
    }
    this.cursor = draw("line", { class: "cursor", y1: 8, y2: CURVE_HEIGHT });
    this.dots = parts.map(([style]) => draw("circle", { class: style, r: 5 }));
    this.svg.append(this.cursor, ...this.dots);
    this.show();
  }
}
