// The page of a comparison: before and after, one above the other, on one scale.

const { trace } = JSON.parse(by("data").textContent);
const times = new Times(by("data").dataset.dates !== undefined);

function startTimelines(host) {
  const { timeline } = trace;
  if (!host || !timeline?.bins?.length) return;
  const of = (field) => timeline.bins.map((bin) => bin[field]);
  const [offered, old, now, refused, allowed] = ["offered", "old_refused", "new_refused", "newly_refused", "newly_allowed"].map(of);
  const minus = (all, part) => all.map((value, at) => value - part[at]);
  const lane = (title, series) => ({ title, height: 130, scale: "refused", series });
  new Chart(host, {
    name: "Refusals before and after, over time", from: timeline.bins[0].t_us, binUs: timeline.bin_us, bins: timeline.bins.length, times,
    lanes: [
      lane("Old: refused", [{ style: "refused", values: minus(old, allowed) }, { style: "newly-allowed", values: allowed }]),
      lane("New: refused", [{ style: "refused", values: minus(now, refused) }, { style: "newly-refused", values: refused }]),
      { title: "All checks", height: 56, series: [{ style: "checks", values: offered }] },
    ],
    rows: [
      { label: "Checks", style: "checks", values: offered, isAlways: true }, { label: "Refused by the old", style: "refused", values: old, isAlways: true },
      { label: "Refused by the new", style: "refused", values: now, isAlways: true },
      { label: "Newly refused", style: "newly-refused", values: refused }, { label: "Newly allowed", style: "newly-allowed", values: allowed },
    ],
    legend: [["refused", "refused by both"], ["newly-allowed", "newly allowed"], ["newly-refused", "newly refused"]],
  });
}

for (const element of document.querySelectorAll("[data-scripted]")) element.hidden = false;
times.localise(document);
startTimelines(by("timeline"));
startPrinting(() => () => {});
