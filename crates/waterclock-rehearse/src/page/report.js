// The page of a replay.

const report = JSON.parse(by("data").textContent);
const times = new Times(by("data").dataset.dates !== undefined);

// Refusals by limit. A check that several limits refuse is drawn once, divided among them; one that no limit of the policy
// refuses (a blocked key, a custom limit) is "other".
function refusals({ bins }, limits) {
  const refused = bins.map(({ offered, allowed }) => offered - allowed);
  const told = limits.map((_, at) => bins.map(({ refused_by }) => refused_by?.[at] ?? 0));
  const sums = bins.map((_, bin) => told.reduce((sum, values) => sum + values[bin], 0));
  const drawn = told.map((values) => values.map((value, bin) => (sums[bin] > refused[bin] ? (value * refused[bin]) / sums[bin] : value)));
  const other = refused.map((all, bin) => Math.max(0, all - sums[bin]));
  const inShadow = limits.map((_, at) => bins.map(({ shadow_refused_by }) => shadow_refused_by?.[at] ?? 0));
  return { refused, told, drawn, other, inShadow };
}

function startTimeline(host) {
  const { timeline } = report;
  if (!host || !timeline?.bins?.length) return;
  const limits = report.limits ?? [];
  const { refused, told, drawn, other, inShadow } = refusals(timeline, limits);
  const has = (values) => values.some((value) => value > 0);
  const style = (at) => `limit-${at % 6}`;
  const shadow = timeline.bins.map((_, bin) => inShadow.reduce((sum, values) => sum + values[bin], 0));
  const byLimit = limits.map(({ name }, at) => ({ label: visible(name), style: style(at), values: drawn[at], told: told[at] })).filter(({ values }) => has(values));
  const rest = [{ ...(byLimit.length ? { label: "other", style: "other" } : { label: "refused", style: "refused" }), values: other, told: other }].filter(({ values }) => has(values));
  const inShadows = [{ label: "shadow-refused", style: "shadow", values: shadow }].filter(({ values }) => has(values));
  const top = [...byLimit, ...rest, ...inShadows];
  const several = byLimit.length + rest.length > 1;
  const offered = timeline.bins.map((bin) => bin.offered), allowed = timeline.bins.map((bin) => bin.allowed);
  const checks = { title: "All checks", height: top.length ? 64 : 150, series: [{ style: "allowed", values: allowed }, { style: several ? "total" : "refused", values: refused }] };
  const title = inShadows.length ? (has(refused) ? "Refused and shadow-refused" : "Shadow-refused") : "Refused";
  new Chart(host, {
    name: "Checks over time", from: timeline.bins[0].t_us, binUs: timeline.bin_us, bins: timeline.bins.length, times,
    lanes: [...(top.length ? [{ title: byLimit.length > 1 ? `${title}, by limit` : title, height: 170, series: top }] : []), checks],
    rows: [
      { label: "Checks", style: "checks", values: offered, isAlways: true }, { label: "Allowed", style: "allowed", values: allowed, isAlways: true },
      { label: "Refused", style: several ? "total" : "refused", values: refused, isAlways: true },
      ...[...byLimit, ...(byLimit.length ? rest : [])].map(({ label, style, told }) => ({ label: `by ${label}`, style, values: told })),
      ...limits.map(({ name }, at) => ({ label: `shadow: ${visible(name)}`, style: "shadow", values: inShadow[at] })),
    ],
    legend: [...top.map(({ label, style }) => [style, label]), ["allowed", "allowed"], ...(several ? [["total", "refused by any"]] : [])],
  });
}

for (const element of document.querySelectorAll("[data-scripted]")) element.hidden = false;
times.localise(document);
startTimeline(by("timeline"));
for (const host of document.querySelectorAll("[data-curve]")) {
  const curve = report.curves?.[host.dataset.curve];
  if (curve?.points?.length) new Curve(host, curve, report.curves.length === 1);
}
for (const host of document.querySelectorAll("[data-copy]")) host.replaceChildren(copyable(host.textContent).element);
startPrinting(startClients(by("clients"), report, times));
