// Accuracy of predicted latencies: compared with measurements, and by the checks of the profiles.
function setUpTruth() {
  const {gaps, band, checks, notes} = DATA;
  if (!gaps.length && !checks.length && !notes.length) return;
  byId("truth").hidden = false;
  const good = gaps.filter(gap => Math.abs(gap.predicted_ms / gap.measured_ms - 1) <= band).length;
  byId("truth-says").textContent = gaps.length ? `${good} of ${gaps.length} predictions are within ` +
    `${percent(band, 0)} of the measurement (the band in the chart).` : "";
  byId("truth-chart").hidden = !gaps.length;
  if (gaps.length) draw("truth-chart", truthChart);
  showChecks();
}

function truthChart() {
  const {gaps, band} = DATA, names = [...new Set(gaps.map(gap => gap.measure))];
  const all = gaps.flatMap(gap => [gap.predicted_ms, gap.measured_ms]);
  const ends = [Math.min(...all) / 1.15, Math.max(...all) * 1.15];
  const edge = (factor, more) => lines("", ends, ends.map(end => end * factor),
    {line: {width: 0, color: colour("faint")}, hoverinfo: "skip", showlegend: false, ...more});
  const tint = colour("faint").replace("rgb(", "rgba(").replace(")", ", .16)");
  const dots = names.flatMap((name, i) => [false, true]
    .map(subnets => measuredDots(name, SERIES[i % SERIES.length], subnets)));
  return {
    traces: [edge(1 - band), edge(1 + band, {fill: "tonexty", fillcolor: tint}),
             edge(1, {line: {width: 1, color: colour("faint"), dash: "dot"}}), ...dots.filter(each => each.x.length)],
    layout: {legend: {...LEGEND, traceorder: "normal"}, xaxis: {title: titled("measured (ms)"), ...ticks(ends)},
             yaxis: {title: titled("predicted (ms)"), ...ticks(ends)}}};
}

function measuredDots(name, ink, subnets) {  // of extracted models, or of the check of a profile
  const gaps = DATA.gaps.filter(gap => gap.measure === name && Boolean(gap.source) === subnets);
  const hover = gap => `<b>${esc(short(gap.key))}</b>${gap.source ? " " + esc(gap.source) : ""}<br>` +
    `predicted ${show(name, gap.predicted_ms, gap.unmeasured)}, measured ${show(name, gap.measured_ms)}<br>` +
    signed(gap.measured_ms / gap.predicted_ms - 1);
  return {type: "scatter", mode: "markers", x: gaps.map(gap => gap.measured_ms), y: gaps.map(gap => gap.predicted_ms),
          name: esc(measure(name).label.replace("latency on ", "")) + (subnets ? ", extracted" : ""),
          text: gaps.map(hover), hovertemplate: "%{text}<extra></extra>",
          marker: {size: subnets ? 12 : 7, symbol: subnets ? "star" : "circle", opacity: subnets ? 1 : .7,
                   color: colour(ink)}};
}

function showChecks() {
  const {checks, notes} = DATA;
  const tau = value => value === null || value === undefined ? "–" : value.toFixed(3);
  byId("checks").hidden = !checks.length;
  byId("checks").replaceChildren(table([
    {title: "profile", cell: row => `${row.device}, ${row.phase}`},
    {title: "verdict", cell: row => row.verdict},
    {title: "error", cell: row => percent(row.predicted.mape)},
    {title: "noise floor", cell: row => percent(row.noise_floor)},
    {title: "within 10 %", cell: row => percent(row.predicted.within, 0)},
    {title: "Kendall’s tau", cell: row => tau(row.predicted.tau)},
    {title: "error of the naive table", cell: row => percent(row.naive.mape)},
    {title: "error of a MAC estimate", cell: row => percent(row.macs.mape)},
    {title: "models", cell: row => row.n}], checks));
  const slower = row => `${row.device}, ${row.phase}: machine was ${row.slowdown.toFixed(3)}x slower than at ` +
    `profiling time; measurements corrected` +
    (row.as_timed ? `; uncorrected error ${percent(row.as_timed.mape)}.` : ".");
  const few = checks.filter(row => row.verdict === "too few models").map(row => el("li", {},
    `${row.device}, ${row.phase}: ${row.n} models are too few for a verdict; ` +
    `nas profile ${row.device} --check -n ${DATA.enough} measures enough.`));
  byId("checks-say").replaceChildren(...few, ...checks.filter(row => row.slowdown).map(row => el("li", {}, slower(row))),
                                     ...notes.map(note => el("li", {}, note)));
}
