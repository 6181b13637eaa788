// The front: select a device, a cost, a quality and a limit; updates the chart, the table and the text.
const search = DATA.search;
const view = {quality: null, cost: null, limit: Infinity, order: null};
const NO_DEVICE = "any";
const SQUEEZED = 1.6;  // how much taller the chart may become for models that were trained on their own
const deviceOf = name => measure(name).device || NO_DEVICE;
const frontPoints = () => search.fronts[`${view.quality} ${view.cost}`].map(i => search.points[i]);
const within = point => point.costs[view.cost] <= view.limit;
const subnetsOf = key => DATA.picked.filter(each => each.key === key);

function setUpFront() {
  [view.quality, view.cost] = search.shown;
  byId("front").hidden = false;
  const says = `Found by a search for ${search.objectives.map(name => measure(name).label).join(", ")}`;
  byId("front-says").textContent = says + (search.limits.length ? ` within ${search.limits.join(", ")}.` : ".");
  const ends = search.points.some(point => /smallest|largest/.test(point.mark));
  byId("front-named").hidden = !search.points.some(point => point.mark);
  byId("front-named").textContent = "Labels: the smallest and largest architectures of the space, and published architectures in it." +
    (ends ? " Smallest and largest have every dimension at its minimum and maximum; they need not be the fastest and " +
            "the slowest." : "");
  byId("limit").addEventListener("input", event => {
    view.limit = Number(event.target.value) >= Number(event.target.max) ? Infinity : Number(event.target.value);
    showFront();
  });
  choose(view.cost);
  byId("front-chart").on("plotly_click", event => {
    const key = event.points[0].customdata;
    if (DATA.archs[key]) select(key);
  });
}

function choose(cost) {
  view.cost = cost;
  const devices = [...new Set(search.costs.map(deviceOf))];
  const label = name => name === NO_DEVICE ? "any device" : name;
  const of = name => search.costs.filter(cost => deviceOf(cost) === name);
  choices(byId("devices"), "device", devices.map(value => ({value, label: label(value)})), deviceOf(cost),
          name => choose(of(name)[0]));
  const words = name => measure(name).label.replace(` on ${measure(name).device}`, "");
  choices(byId("costs"), "cost", of(deviceOf(cost)).map(value => ({value, label: words(value)})), cost, choose);
  choices(byId("qualities"), "quality", search.qualities.map(value => ({value, label: value})), view.quality,
          name => { view.quality = name; choose(view.cost); });
  const values = frontPoints().map(point => point.costs[cost]);
  const [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 0];
  const slider = byId("limit");
  Object.assign(slider, {min: low, max: high, step: (high - low) / 200 || 1});
  slider.value = high;
  slider.disabled = !(high > low);
  view.limit = Infinity;
  view.order = null;
  byId("limit-label").textContent = `Maximum ${words(cost)}`;
  showFront();
  if (selected[0]) showPanes();  // latency breakdown on this device
}

function showFront() {
  const limit = view.limit === Infinity ? Number(byId("limit").max) : view.limit;
  const said = show(view.cost, limit);
  byId("limit-value").textContent = said;
  byId("limit").setAttribute("aria-valuetext", said);
  const points = frontPoints(), kept = points.filter(within);
  byId("front-count").textContent = `${kept.length} of ${points.length} architectures on this front` +
    (search.objectives.includes(view.cost) ? "" : "; this cost was not an objective of the search") +
    ". Select one in the chart or the table to draw it.";
  const alone = ["inherit", "scratch"].some(how => trainedModels(how).length);
  byId("front-judged").textContent = alone && search.judged !== DATA.whole
    ? `Points of the search show the ${view.quality} on ${search.judged}; retrained models and models trained from ` +
      `scratch show it on ${DATA.whole}, so small differences between the two are not significant.`
    : `Every ${view.quality} was evaluated on ${search.judged}.`;
  if (trainedModels("inherit").concat(trainedModels("scratch")).some(isBeyond(qualityRange())))
    byId("front-judged").textContent += " Triangles at the edge mark models outside this chart.";
  showKinds();
  const note = search.unmeasured[`${view.quality} ${view.cost}`];
  byId("front-unmeasured").hidden = !note;
  byId("front-unmeasured").textContent = note || "";
  byId("front-chart").setAttribute("aria-label",
    `${measure(view.quality).label} over ${measure(view.cost).label}; the table below lists the same points`);
  draw("front-chart", frontChart);
  showTable(kept);
  fillSelects();
}

const costOf = (point, name) => show(name, point.costs[name], point.unmeasured[name]);
const hover = point => [`<b>${short(point.key)}</b>${point.mark ? " · " + esc(point.mark) : ""}`,
  ...search.qualities.map(name => `${esc(name)} ${show(name, point.metrics[name])}`),
  `on ${esc(search.judged)}`, ...search.costs.map(name => `${esc(measure(name).label)} ${costOf(point, name)}` +
    (point.unmeasured[name] ? `, ${percent(point.unmeasured[name], 0)} not measured` : "")),
  wrapped(point.line), point.estimated ? "<i>estimated: evaluation stopped early</i>" : "",
  point.allowed ? "" : "<i>violates a limit of the search</i>"].filter(Boolean).join("<br>");

function scatter(points, name, marker, more = {}) {
  return {type: "scatter", mode: "markers", name, x: points.map(point => point.costs[view.cost]),
          y: points.map(point => point.metrics[view.quality]), customdata: points.map(point => point.key),
          text: points.map(hover), hovertemplate: "%{text}<extra></extra>", marker, ...more};
}

function frontChart() {
  const front = frontPoints(), on = new Set(front.map(point => point.key));
  const rest = search.points.filter(point => !on.has(point.key));
  const marked = search.points.filter(point => point.mark);
  const picked = search.points.filter(point => subnetsOf(point.key).length);
  const chosen = search.points.filter(point => point.key === selected[0]);
  const stars = ["inherit", "scratch"].flatMap(how => trainedModels(how));
  const sizes = [...search.points.map(point => point.costs[view.cost]), ...stars.map(each => each.cost)];
  const heights = qualityRange();
  const ends = [Math.min(...sizes) / 1.06, Math.max(...sizes) * 1.06], log = ends[0] > 0 && ends[1] > 8 * ends[0];
  const ring = (width, size) => ({symbol: "circle-open", size, color: colour("text"), line: {width}});
  const traces = [
    scatter(rest.filter(point => !point.estimated), "evaluated", {size: 6, color: colour("faint"), opacity: .45}),
    scatter(rest.filter(point => point.estimated), "estimated",
            {size: 6, color: colour("faint"), symbol: "circle-open", opacity: .6}),
    scatter(front, "front", {size: 10, color: front.map(point => within(point) ? colour("front") : colour("line"))},
            {mode: "lines+markers", line: {color: colour("front"), width: 1.5, shape: "hv"}}),
    trainedAlone("inherit", "retrained", {symbol: "star", size: 14, color: colour("front")}, heights),
    trainedAlone("scratch", "from scratch", {symbol: "x", size: 11, color: colour("attends")}, heights),
    scatter(picked, "extracted", ring(1.5, 16), {hoverinfo: "skip", hovertemplate: null}),
    {...scatter(marked, "named", {symbol: "diamond", size: 11, color: colour("attends")}),
     mode: "markers+text", texttemplate: "%{meta}", textposition: marked.map(side(on, ends)), cliponaxis: false,
     textfont: {size: 12, color: colour("muted"), shadow: Array(4).fill(`0 0 3px ${colour("surface")}`).join()}},
    {...scatter(chosen, "chosen", ring(3, 18)), showlegend: false, hoverinfo: "skip", hovertemplate: null},
  ].filter(trace => trace.x.length);
  traces.forEach(trace => { if (trace.texttemplate) trace.texttemplate = marked.map(point => esc(point.mark)); });
  const line = view.limit === Infinity ? [] : [{type: "line", yref: "paper", y0: 0, y1: 1, x0: view.limit,
    x1: view.limit, line: {color: colour("muted"), width: 1, dash: "dash"}}];
  return {traces, layout: {legend: {...LEGEND, entrywidth: 70}, shapes: line, uirevision: view.cost + view.quality,
    xaxis: {title: axisTitle(view.cost), ...(log ? ticks(ends) : {})},
    yaxis: {title: axisTitle(view.quality), ...(heights ? {range: heights} : {})}}};
}

// The range of the search results, if models trained separately are so far off that they would compress the axis.
function qualityRange() {
  const others = ["inherit", "scratch"].flatMap(how => trainedModels(how)).map(each => each.quality);
  const found = search.points.map(point => point.metrics[view.quality]);
  const ends = values => [Math.min(...values), Math.max(...values)];
  const [low, high] = ends(found), [least, most] = ends([...found, ...others]);
  if (most - least <= SQUEEZED * (high - low)) return null;
  return [low - .12 * (high - low || 1), high + .12 * (high - low || 1)];
}

// Retrained subnets, evaluated on the whole validation split; with their measured latency if there is one.
function trainedModels(how) {
  return DATA.picked.filter(each => each.trained === how && each.costs[view.cost] !== undefined)
    .map(each => ({...each, quality: each.steps.at(-1).metrics[view.quality], ...latencyOf(each)}))
    .filter(each => each.quality !== null && each.quality !== undefined);
}

function latencyOf(each) {
  const predicted = costOf(each, view.cost), found = each.measured[view.cost];
  return found ? {cost: found[1], says: `${show(view.cost, found[1])}, measured (predicted ${predicted})`}
    : {cost: each.costs[view.cost], says: predicted};
}

// -1 for a model below the range of a chart, 1 for one above it, 0 for one within it.
const isBeyond = range => ({quality}) => !range ? 0 : quality < range[0] ? -1 : quality > range[1] ? 1 : 0;

// Models outside the range of the chart are drawn at its edge, as triangles that point towards them.
function trainedAlone(how, name, marker, range) {
  const found = trainedModels(how);
  const beyond = found.map(isBeyond(range));
  const inset = range ? .035 * (range[1] - range[0]) : 0;
  const height = ({quality}, i) => beyond[i] ? range[(beyond[i] + 1) / 2] - beyond[i] * inset : quality;
  const symbol = found.map((_, i) => ["triangle-down", marker.symbol, "triangle-up"][beyond[i] + 1]);
  const says = (each, i) => [`<b>${esc(each.name)}</b> · ${name}`,
    `${esc(view.quality)} ${show(view.quality, each.quality)}${beyond[i] ? ", outside this chart" : ""}`,
    `on ${esc(DATA.whole)}`, `${esc(measure(view.cost).label)} ${each.says}`].join("<br>");
  return {type: "scatter", mode: beyond.some(Boolean) ? "markers+text" : "markers", name, marker: {...marker, symbol},
          x: found.map(each => each.cost), y: found.map(height), customdata: found.map(each => each.key),
          hovertext: found.map(says), hovertemplate: "%{hovertext}<extra></extra>",
          text: found.map((each, i) => beyond[i] ? show(view.quality, each.quality) : ""), textposition: "middle right",
          textfont: {size: 12, color: colour("muted")}};
}

// Labels do not overlap the front's line: those of the front are on its better side, the others on the worse side.
// Labels of expensive architectures are on the left, so that none leaves the chart.
const side = (on, [low, high]) => point =>
  (on.has(point.key) === Boolean(measure(view.quality).maximise) ? "top " : "bottom ") +
  (point.costs[view.cost] > Math.sqrt(low * high) ? "left" : "right");

function showTable(points) {
  const judged = search.judged_in_short && `, ${search.judged_in_short}`;
  const number = (name, of) => ({title: measure(name).label + (of === "metrics" ? judged : ""), sort: row => row[of][name],
                                 cell: row => of === "costs" ? costOf(row, name) : show(name, row[of][name])});
  const share = name => ({title: "not measured", sort: row => row.unmeasured[name] || 0,
                          cell: row => percent(row.unmeasured[name] || 0, 0)});
  const columns = [
    {title: "key", sort: row => row.key, cell: row => el("span", {},
      el("button", {type: "button", class: "key", title: `Draw ${row.key}`, onclick: () => select(row.key, true)},
         short(row.key)), row.mark ? ` ${row.mark}` : "")},
    number(view.quality, "metrics"), number(view.cost, "costs"),
    ...(points.some(point => point.unmeasured[view.cost]) ? [share(view.cost)] : []),
    ...search.qualities.filter(name => name !== view.quality).map(name => number(name, "metrics")),
    ...search.costs.filter(name => name !== view.cost).map(name => number(name, "costs"))];
  if (DATA.picked.length) columns.push(
    {title: "extracted", sort: row => subnetsOf(row.key).length ? 0 : 1,
     cell: row => subnetsOf(row.key).length ? "yes" : "–"},
    {title: `${measure(view.quality).label} retrained${judged && ", whole split"}`, sort: row => retrained(row.key),
     cell: row => show(view.quality, retrained(row.key))});
  if (!view.order) view.order = {by: 2, up: true};
  const rows = points.map(point => ({...point, chosen: point.key === selected[0]}));
  byId("front-table").replaceChildren(table(columns, rows, view.order));
}

function retrained(key) {  // the best quality of a subnet of this architecture that was trained on its own
  const found = subnetsOf(key).flatMap(each => each.steps.filter(step => step.stage === "retrain"))
    .map(step => step.metrics[view.quality]).filter(value => value !== null && value !== undefined);
  return found.length ? (measure(view.quality).maximise ? Math.max(...found) : Math.min(...found)) : null;
}
