// Everything below the architectures; a section without data stays hidden; page.js lists the command that adds it.
const lines = (name, x, y, more) => ({type: "scatter", mode: "lines", name, x, y, line: {width: 2}, ...more});
const signed = value => `${value >= 0 ? "+" : "−"}${percent(Math.abs(value))}`;

function setUpPicked() {  // a card for each architecture, with all models that were made from it
  const keys = [...new Set(DATA.picked.map(each => each.key))];
  byId("picked").hidden = !keys.length;
  byId("picked-says").textContent = `Evaluated on ${DATA.whole}` + (search && search.judged !== DATA.whole
    ? `; the search evaluated the same architectures on ${search.judged}, so its figures differ slightly.` : ".");
  byId("subnets").replaceChildren(...keys.map((key, i) => el("details", {open: i < 2},
    el("summary", {}, `${short(key)} `, el("span", {class: "muted"}, DATA.archs[key].line)),
    el("div", {class: "card"}, el("div", {}, drawing(key)), el("div", {}, ...models(subnetsOf(key)),
      el("p", {}, el("button", {type: "button", onclick: () => select(key, true)}, "Compare with others")))))));
}

function models(subnets) {
  const box = (inner, what) => el("div", {class: "scroll", role: "region", tabindex: "0", "aria-label": what}, inner);
  const metrics = [...new Set(subnets.flatMap(each => each.steps.flatMap(step => Object.keys(step.metrics))))];
  const last = (each, name) => each.steps.length ? each.steps[each.steps.length - 1].metrics[name] : null;
  const made = each => each.steps.map(step => step.stage + (step.settings ? ` (${step.settings})` : ""))
    .join(", then ");
  const kept = Object.keys(DATA.measures).filter(name => measure(name).of_weights);
  const gaps = subnets.flatMap(each => Object.entries(each.measured).map(([name, of]) => ({each, name, of})));
  return [
    box(table([{title: "model", cell: each => each.name},
      ...metrics.map(name => ({title: name, cell: each => show(name, last(each, name))})),
      ...kept.map(name => ({title: measure(name).label.replace("bytes of ", ""), cell: each => show(name, each.costs[name])})),
      {title: "exports", words: "few", cell: each => each.exports.join(", ") || "–"}], subnets),
      "Models of this architecture"),
    el("ul", {class: "muted plain"}, ...subnets.filter(made).map(each => el("li", {}, `${each.name}: ${made(each)}.`))),
    gaps.length ? box(table([
      {title: "latency", cell: gap => measure(gap.name).label.replace("latency ", "")},
      {title: "predicted", cell: gap => show(gap.name, gap.of[0], gap.each.unmeasured[gap.name])},
      ...(gaps.some(gap => gap.each.unmeasured[gap.name]) ? [{title: "not measured",
        cell: gap => percent(gap.each.unmeasured[gap.name] || 0, 0)}] : []),
      {title: "measured", cell: gap => show(gap.name, gap.of[1])},
      {title: "gap", cell: gap => gap.of[0] ? signed(gap.of[1] / gap.of[0] - 1) : "–"},
      ...(new Set(gaps.map(gap => gap.each)).size > 1 ? [{title: "model", cell: gap => gap.each.name}] : [])], gaps),
      "Predicted and measured latency") : null];
}

function setUpVolume() {
  if (!search || search.hypervolume.length < 2) return;
  byId("volume").hidden = false;
  const trials = search.hypervolume.map((_, i) => i + 1);
  draw("volume-chart", () => ({
    traces: [lines("hypervolume", trials, search.hypervolume, {line: {color: colour("front"), width: 2, shape: "hv"},
      hovertemplate: "%{y:.3f} after %{x} trials<extra></extra>"})],
    layout: {xaxis: {title: titled("evaluated trials")}, yaxis: {rangemode: "tozero"}}}));
}

function setUpImportance() {
  const found = search && search.importance;
  if (!found) return;
  const little = found.r2 < .05;
  byId("importance").hidden = false;
  byId("importance-chart").hidden = little;
  byId("importance-says").textContent = `Share of the variance of the ${found.metric} that each dimension explains ` +
    `alone in a ridge regression on the values of all genes, evaluated on held-out trials. Together they `  +
    `explain ${percent(Math.max(found.r2, 0), 0)} of ${found.n} trials` +
    (found.r2 < .2 ? ": too little to be useful." : ".");
  if (little) return;
  const top = Object.entries(found.shares).slice(0, 12).reverse();
  const effects = name => Object.entries(found.effects[name]).sort((a, b) => a[1] - b[1])
    .map(([value, effect]) => `${esc(value)}: ${effect >= 0 ? "+" : "−"}${digits(Math.abs(effect), 2)}`).join("<br>");
  const hover = ([name, share]) =>
    `<b>${esc(name)}</b> ${percent(share)}<br>effect on the ${esc(found.metric)}:<br>${effects(name)}`;
  byId("importance-chart").style.height = `${26 * top.length + 70}px`;
  draw("importance-chart", () => ({
    traces: [{type: "bar", orientation: "h", y: top.map(([name]) => esc(dimension(name))),
      x: top.map(([, share]) => Math.max(share, 0)), marker: {color: colour("attends")}, textposition: "none",
      text: top.map(hover), hovertemplate: "%{text}<extra></extra>"}],
    layout: {margin: {l: 8, r: 12, t: 4, b: 44}, bargap: .35, yaxis: {type: "category", showgrid: false},
             xaxis: {tickformat: ".0%", title: titled("share of the variance")}}}));
}

function showKinds() {  // of the front that is shown
  const rows = search.kinds[`${view.quality} ${view.cost}`];
  byId("kinds").hidden = false;
  byId("kinds-says").textContent = `Number of architectures with a block of each kind, and the range of ` +
    `${measure(view.cost).label} of those on the front.`;
  const range = row => row.on_front ? `${show(view.cost, row.least_cost)} to ${show(view.cost, row.most_cost)}` : "–";
  byId("kinds-table").replaceChildren(table([
    {title: "role", words: "few", cell: row => row.role, sort: row => row.role},
    {title: "kind", words: true, cell: row => row.kind, sort: row => row.kind},
    {title: "on the front", cell: row => `${row.on_front}`, sort: row => row.on_front},
    {title: "evaluated", cell: row => `${row.evaluated}`, sort: row => row.evaluated},
    {title: measure(view.cost).label, cell: range, sort: row => row.least_cost},
    {title: `best ${view.quality}`, cell: row => show(view.quality, row.best_quality), sort: row => row.best_quality},
  ], rows));
}

// decoder.transformer.mixer.kind -> mixer kind: most share the same prefix.
const dimension = name => name.split(".").slice(-2).join(" ");

function setUpCurves() {
  const of = retrained => DATA.curves.filter(curve => Boolean(curve.training) === retrained);
  const judged = curve => curve.metric.replace(/^train\/loss_?/, "").replace(/^valid\/|\/?loss$/g, "") || "mean";
  showCurves("training", of(false).filter(curve => /loss/.test(curve.metric)), judged);
  showCurves("retraining", of(true).filter(curve => /^train|^valid\/loss$/.test(curve.metric)), curve => curve.model);
}

const isValid = curve => curve.metric.startsWith("valid");

function showCurves(id, curves, name) {  // a colour for each name; validation stands out
  if (!curves.length) return;
  byId(id).hidden = false;
  const names = [...new Set(curves.map(name))], ink = each => SERIES[names.indexOf(each) % SERIES.length];
  const judged = [...new Set(curves.filter(isValid).map(curve => curve.judged))];
  byId(`${id}-says`).textContent = (judged.length ? `Solid lines: loss on ${judged.join(", or ")}. ` : "") +
    "Faint lines: training loss.";
  byId(`${id}-legend`).replaceChildren(...inks(names.map(each => ["", each, ink(each)])));
  draw(`${id}-chart`, () => ({
    layout: {showlegend: false, xaxis: {title: titled("step")}, yaxis: {title: titled("loss")}},
    traces: curves.map(curve => {
      const valid = isValid(curve), says = `${esc(name(curve))}, ${valid ? "validation" : "training"}`;
      return lines(says, curve.steps, curve.values, {
        mode: valid && curve.steps.length < 60 ? "lines+markers" : "lines", opacity: valid ? 1 : .45,
        line: {color: colour(ink(name(curve))), width: valid ? 2 : 1}, marker: {size: 5},
        hovertemplate: `${says} %{y:.4f} at step %{x}<extra></extra>`});
    })}));
}

function setUpRanking() {
  const found = DATA.ranked;
  if (!found) return;
  byId("ranking").hidden = false;
  const steps = found.steps ? ` for ${found.steps.toLocaleString("en-US")} steps` : "", top = found.overall.ceiling;
  byId("ranking-says").textContent = `Loss with the supernet’s weights against the loss after training from scratch` +
    `${steps}, ${found.overall.n} architectures.` +
    (top ? ` A perfect predictor would reach a tau of ${top.perfect.toFixed(2)}: the rest is seed noise.` : "");
  const groups = {spread: ["spread over the range of costs", "attends", "circle"],
                  band: ["of nearly equal MACs", "front", "diamond"]};
  draw("ranking-chart", () => ({
    traces: Object.entries(groups).map(([group, [name, ink, symbol]]) => {
      const rows = found.rows.filter(row => row.group === group);
      return {type: "scatter", mode: "markers", name, x: rows.map(row => row.inherited_loss),
              y: rows.map(row => row.trained_loss), text: rows.map(row => esc(short(row.key))),
              hovertemplate: "<b>%{text}</b><br>supernet %{x:.4f}, trained %{y:.4f}<extra></extra>",
              marker: {size: 9, symbol, color: colour(ink)}};
    }).filter(trace => trace.x.length),
    layout: {xaxis: {title: titled("loss with the supernet’s weights")},
             yaxis: {title: titled("loss after training from scratch")}}}));
  const range = (low, high) => low === null || high === null ? "" : ` [${low.toFixed(2)}, ${high.toFixed(2)}]`;
  const tau = (part, name) => {
    const figure = found[part].figures.find(each => each.name === name);
    return figure && figure.tau !== null ? figure.tau.toFixed(2) + range(figure.low, figure.high) : "–";
  };
  byId("ranking-table").replaceChildren(table([
    {title: "ranked by", words: true, cell: name => found.words[name] || name},
    {title: "tau, all", cell: name => tau("overall", name)},
    {title: "tau, equal MACs", cell: name => tau("band", name)}], found.overall.figures.map(each => each.name)));
}
