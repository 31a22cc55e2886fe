// The table of clients: each row opens to what the client did.

// Estimates of how many different ones there are end not far above it.
const MOST_ESTIMATED = 10_000;

// Some of what a client asked for most, with how often.
function mostAsked(title, pairs, distinct) {
  if (!pairs?.length) return null;
  const all = distinct > MOST_ESTIMATED ? `more than ${count(MOST_ESTIMATED)}` : `about ${count(distinct)}`;
  const more = distinct > pairs.length ? ` (${count(pairs.length)} of ${all})` : "";
  return make("div", {}, make("h3", {}, `${title}${more}`), make("ol", { class: "counts" },
    ...pairs.map(([text, number]) => make("li", {}, quoted(text || "–"), make("span", {}, count(number))))));
}

const KINDS = { "one-agent": "It came with few user agents, or mostly one: one program, or one person.", "many-agents": "It came with many user agents: probably an address that many people share." };

function clientWords(client, { limits = [] }, times) {
  const by = limits.map(({ name }, index) => [name, client.refused_by?.[index] ?? 0]).filter(([, number]) => number > 0).map(([name, number]) => `${visible(name)} ${count(number)}`);
  const text = make("p", { class: "muted" }, `${counted(client.checks, "check")}`);
  if (client.first_us !== undefined) text.append(" from ", times.element(client.first_us), " to ", times.element(client.last_us));
  text.append(`; ${count(client.refused)} refused${by.length ? ` (${by.join(", ")})` : ""}`);
  if (client.shadow_refused) text.append(`, ${count(client.shadow_refused)} shadow-refused`);
  if (client.first_refused_us != null) text.append(", first ", times.element(client.first_refused_us), ", last ", times.element(client.last_refused_us));
  text.append(`. ${KINDS[client.kind] ?? ""}`);
  return text;
}

function clientChart(host, client, timeline, times) {
  const zeros = () => timeline.bins.map(() => 0);
  const [allowed, refused] = [zeros(), zeros()];
  for (const [index, offered, turnedAway] of client.bins) {
    allowed[index] = offered - turnedAway;
    refused[index] = turnedAway;
  }
  const series = [{ style: "allowed", values: allowed }, { style: "refused", values: refused }];
  const labels = ["Allowed", "Refused"];
  new Chart(host, {
    name: "This client over time", from: timeline.bins[0].t_us, binUs: timeline.bin_us, bins: timeline.bins.length, times,
    lanes: [{ title: "Checks of this client", height: 90, series }],
    rows: series.map(({ style, values }, at) => ({ label: labels[at], style, values, isAlways: true })),
    legend: [["allowed", "allowed"], ["refused", "refused"]],
  });
}

class ClientRow {
  constructor(row, client, report, times) {
    Object.assign(this, { row, client, report, times });
    const cell = row.cells[0];
    this.opener = button(quoted(client.key || "–"), () => this.toggle(), { class: "opens", "aria-expanded": "false" });
    cell.replaceChildren(this.opener);
    const place = row.querySelector("[data-spark]");
    if (place && client.bins) place.replaceChildren(sparkline(client.bins, report.timeline.bins.length));
  }

  get isOpen() { return this.opener.getAttribute("aria-expanded") === "true"; }

  toggle() {
    this.detail ??= this.build();
    const isOpen = !this.isOpen;
    this.opener.setAttribute("aria-expanded", isOpen);
    this.detail.hidden = !isOpen;
  }

  // Built when it is opened first: fifty charts would be slow.
  build() {
    const { client, report, times } = this;
    const id = `client-${this.row.rowIndex}`;
    const chart = make("div");
    const cell = make("td", { colspan: this.row.cells.length }, clientWords(client, report, times), chart,
      make("div", { class: "pair" }, mostAsked("Paths", client.paths, client.distinct_paths), mostAsked("User agents", client.agents, client.distinct_agents)));
    const detail = make("tr", { class: "detail", id, hidden: "" }, cell);
    this.opener.setAttribute("aria-controls", id);
    this.row.after(detail);
    if (client.bins?.length) clientChart(chart, client, report.timeline, times);
    return detail;
  }
}

// On paper the first few are open; on a screen the first are shown until more are asked for.
const PRINTED = 5, SHOWN = 12;

function shorten(table, rows) {
  const rest = rows.slice(SHOWN);
  if (rest.length < 2) return;
  for (const { row } of rest) row.hidden = true;
  const more = button(`Show all ${count(rows.length)} clients`, () => {
    for (const { row } of rest) row.hidden = false;
    rest[0].opener.focus();
    more.remove();
  }, { class: "more" });
  table.parentElement.after(more);
}

function startClients(table, report, times) {
  const clients = report.top_clients ?? [];
  const rows = table ? [...table.tBodies[0].rows].map((row, at) => clients[at] && new ClientRow(row, clients[at], report, times)).filter(Boolean) : [];
  if (table) shorten(table, rows);
  return () => {
    const opened = rows.slice(0, PRINTED).filter((row) => !row.isOpen);
    for (const row of opened) row.toggle();
    return () => { for (const row of opened) row.toggle(); };
  };
}
