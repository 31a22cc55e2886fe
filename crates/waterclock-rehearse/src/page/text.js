// Elements, numbers and times. The files of a page are one script: names of one are known to the others.
// Text of logs enters the page as text only.

const by = (id) => document.getElementById(id);

// An element with attributes, listeners (`on…`) and children; strings become text.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function draw(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const button = (words, onclick, attributes = {}) => make("button", { type: "button", onclick, ...attributes }, words);
const swatch = (style) => make("i", { class: `swatch ${style}`, "aria-hidden": "true" });

// Control characters, and those that turn the direction of writing or have no width.
const HIDDEN = /[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
const visible = (text) => text.replace(HIDDEN, (hidden) => `\\u{${hidden.codePointAt(0).toString(16)}}`);
// Isolated, so that right-to-left text does not turn its neighbours around.
const quoted = (text) => make("bdi", {}, visible(text));

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const count = (number) => whole.format(number);
const counted = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

// A percentage that is 0 only for none, and 100 only for all.
function share(part, all) {
  if (!(all > 0)) return "–";
  const percent = (100 * part) / all;
  if (part === 0) return "0 %";
  if (part === all) return "100 %";
  if (percent < 0.01) return "< 0.01 %";
  if (percent < 1) return `${percent.toFixed(2)} %`;
  return percent > 99.9 ? "> 99.9 %" : `${percent.toFixed(1)} %`;
}

const SECOND = 1e6, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

// In two units at most: `1 h 5 min`.
function duration(us) {
  if (us < SECOND) return `${+(us / 1e3).toPrecision(3)} ms`;
  if (us < MINUTE) return `${+(us / SECOND).toPrecision(3)} s`;
  const units = [[DAY, "d"], [HOUR, "h"], [MINUTE, "min"], [SECOND, "s"]];
  const first = units.findIndex(([size]) => us >= size);
  const parts = units.slice(first, first + 2).map(([size, unit], at) => [Math.floor((at ? us % units[first][0] : us) / size), unit]);
  return parts.filter(([number]) => number > 0).map(([number, unit]) => `${number} ${unit}`).join(" ");
}

// Times of logs are dates, shown in the zone of the reader; those of traces may start with 0.
class Times {
  constructor(areDates) {
    this.areDates = areDates;
    const of = (options) => new Intl.DateTimeFormat("en", { hourCycle: "h23", ...options });
    const day = { month: "short", day: "numeric" }, clock = { hour: "2-digit", minute: "2-digit" };
    this.forms = {
      full: of({ ...day, year: "numeric", ...clock, second: "2-digit" }),
      day: of(day), year: of({ ...day, year: "numeric" }), moment: of({ ...day, ...clock }),
      minute: of(clock), second: of({ ...clock, second: "2-digit" }),
      milli: of({ ...clock, second: "2-digit", fractionalSecondDigits: 3 }),
    };
  }

  zone() { return this.areDates ? this.forms.full.resolvedOptions().timeZone : null; }
  show(us, form = "full") { return this.areDates ? this.forms[form].format(us / 1e3) : duration(us); }
  utc(us) { return `${new Date(us / 1e3).toISOString().replace("T", " ").replace(".000", "")} (UTC)`; }
  element(us) {
    if (!this.areDates) return make("span", { class: "nowrap" }, duration(us));
    return make("time", { datetime: new Date(us / 1e3).toISOString(), title: this.utc(us) }, this.show(us));
  }

  // What was written in UTC becomes the reader's time, and keeps UTC for the pointer.
  localise(root) {
    for (const element of root.querySelectorAll("time[datetime]")) element.replaceWith(this.element(Date.parse(element.dateTime) * 1e3));
  }
}

// A text to copy, with a button.
function copyable(text) {
  const code = make("pre", { tabindex: "0", "aria-label": "Configuration to copy" }, text);
  const copy = button("Copy", async () => {
    // A page that may not write to the clipboard leaves the text selected, to be copied by hand.
    getSelection().selectAllChildren(code);
    const isCopied = await navigator.clipboard?.writeText(code.textContent).then(() => true, () => false);
    copy.textContent = isCopied ? "Copied" : "Selected";
    setTimeout(() => { copy.textContent = "Copy"; }, 2_000);
  });
  return { element: make("div", { class: "copy" }, code, copy), code };
}

// On paper everything that matters is open; afterwards it is as it was.
function startPrinting(open) {
  let close = () => {};
  addEventListener("beforeprint", () => {
    const folded = [...document.querySelectorAll("details:not([open], .aside)")];
    for (const details of folded) details.open = true;
    const undo = open();
    close = () => { for (const details of folded) details.open = false; undo(); };
  });
  addEventListener("afterprint", () => close());
}
