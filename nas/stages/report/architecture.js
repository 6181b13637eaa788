// One or two architectures: drawing, costs and latency breakdown.
const selected = ["", ""];
const NAMES = {attends: "attention", convolves: "convolution", deep: "DeLighT unit", cross: "cross-attention",
               ffn: "feed-forward", other: "other mixer", end: "embedding, norm, head", overhead: "overhead"};
const pointOf = key => search && search.points.find(point => point.key === key);

function select(key, scroll = false) {
  selected[0] = key;
  if (search) showFront();
  showPanes();
  if (scroll) byId("architecture").scrollIntoView();
}

function setUpArchitecture() {
  const keys = Object.keys(DATA.archs);
  if (!keys.length) return;
  byId("architecture").hidden = false;
  const front = search ? frontPoints() : [];
  const middle = front.length ? front[Math.floor(front.length / 2)].key : keys[0];
  selected[0] = DATA.picked.length ? DATA.picked[0].key : middle;
  byId("first").addEventListener("change", event => select(event.target.value));
  byId("second").addEventListener("change", event => { selected[1] = event.target.value; showPanes(); });
  select(selected[0]);
}

function fillSelects() {  // the front in view by cost, then what is known by a name, then the rest
  if (!selected[0]) return;
  const label = key => {
    const point = pointOf(key);
    return [short(key), point && costOf(point, view.cost), point && point.mark,
            subnetsOf(key).length && "extracted"].filter(Boolean).join(" · ");
  };
  const front = search ? frontPoints().map(point => point.key) : [];
  const rest = Object.keys(DATA.archs).filter(key => !front.includes(key));
  const group = (title, keys, chosen) => keys.length ? [el("optgroup", {label: title}, ...keys.map(key =>
    el("option", {value: key, selected: key === chosen}, label(key))))] : [];
  [["first", 0], ["second", 1]].forEach(([id, i]) => byId(id).replaceChildren(
    ...(i ? [el("option", {value: ""}, "nothing")] : []),
    ...group("on this front", front, selected[i]), ...group("others", rest, selected[i])));
}

function showPanes() {
  fillSelects();
  charts.forEach((_, id) => { if (id.startsWith("parts-")) { Plotly.purge(byId(id)); charts.delete(id); } });
  const keys = selected.filter(Boolean), drawn = new Set();
  byId("panes").className = keys.length > 1 ? "panes two" : "panes";
  byId("panes").replaceChildren(...keys.map((key, i) => pane(key, i)));
  keys.forEach((key, i) => showParts(key, i));
  for (const svg of byId("panes").querySelectorAll("svg.arch"))
    Object.keys(NAMES).forEach(name => { if (svg.querySelector(`.${name}`)) drawn.add(name); });
  const has = name => byId("panes").querySelector(`.arch .${name}`);
  byId("legend").replaceChildren(...inks([
    ...Object.keys(NAMES).filter(name => drawn.has(name)).map(name => [name, NAMES[name], name]),
    ...(has("again") ? [["again", "shared weights", "end"]] : []),
    ...(has("gone") ? [["gone", "unused slot", "end"]] : [])]));
}

function pane(key, i) {
  const point = pointOf(key), names = subnetsOf(key).map(each => each.name);
  const fact = (name, value) => el("span", {}, el("span", {class: "muted"}, `${measure(name).label} `), value);
  const facts = point ? [...search.qualities.map(name => fact(name, show(name, point.metrics[name]))),
                         el("span", {class: "muted"}, `(on ${search.judged})`),
                         ...search.costs.map(name => fact(name, costOf(point, name)))] : [];
  const measures = partMeasures(key);
  return el("article", {class: "pane"},
    el("div", {class: "words-of"},
      el("h3", {}, short(key) + (point && point.mark ? ` · ${point.mark}` : "")),
      el("p", {class: "muted"}, DATA.archs[key].line),
      el("p", {class: "facts"}, ...facts),
      names.length ? el("p", {class: "muted"}, `Extracted as ${names.join(", ")}`) : null),
    el("div", {class: "drawing"}, drawing(key)),
    el("div", {}, measures.length ? el("p", {class: "muted", id: `parts-says-${i}`}) : null,
      measures.length ? el("div", {class: "chart", id: `parts-${i}`, role: "img",
                                   "aria-label": "Latency of each layer"}) : null));
}

// Drawings contain only escaped text; see nas/stages/report/svg.py.
const drawing = key => document.importNode(
  new DOMParser().parseFromString(DATA.archs[key].svg, "text/html").querySelector("svg"), true);

const partMeasures = key => Object.keys(DATA.parts).filter(name => DATA.parts[name][key]);

function showParts(key, i) {
  const known = partMeasures(key);
  if (!known.length) return;
  const name = known.includes(view.cost) ? view.cost
    : known.find(each => search && deviceOf(each) === deviceOf(view.cost)) || known[0];
  const parts = DATA.parts[name][key], total = parts.reduce((sum, part) => sum + part[3], 0);
  const unmeasured = part => Boolean(part[4]) && part[4] !== "measured";
  const rest = parts.filter(unmeasured).reduce((sum, part) => sum + part[3], 0) / total;
  byId(`parts-says-${i}`).textContent = `Breakdown of ${measure(name).label}: ${show(name, total, rest)}` +
    (rest ? `; hatched: ${percent(rest, 0)} of it, interpolated or estimated` : "");
  const places = [...new Set(parts.map(part => part[0]))], div = byId(`parts-${i}`);
  div.style.height = `${24 * places.length + 84}px`;
  const longest = Math.max(...selected.filter(each => DATA.parts[name][each]).map(each => longestPlace(name, each)));
  draw(`parts-${i}`, () => ({
    traces: Object.keys(NAMES).map(group => {
      const of = parts.filter(part => part[5] === group);
      return {type: "bar", orientation: "h", name: NAMES[group], y: of.map(part => label(part[0])),
              x: of.map(part => part[3]),
              text: of.map(part => `${esc(part[2] || part[1])} ${show(name, part[3], unmeasured(part))}, ` +
                `${percent(part[3] / total, 0)}${unmeasured(part) ? `, ${part[4]}` : ""}`),
              textposition: "none", hovertemplate: "%{text}<extra></extra>", marker: {color: colour(group),
                pattern: {shape: of.map(part => unmeasured(part) ? "/" : ""), fillmode: "replace", size: 6}}};
    }).filter(trace => trace.x.length),
    layout: {barmode: "stack", bargap: .3, showlegend: false, margin: {l: 80, r: 12, t: 4, b: 44},
             xaxis: {title: titled("milliseconds"), range: [0, 1.03 * longest]},
             yaxis: {categoryorder: "array", categoryarray: places.map(label).reverse(), type: "category",
                     showgrid: false}}}));
  function label(place) { return esc(/^\d+$/.test(place) ? `layer ${place}` : place); }
}

function longestPlace(name, key) {
  const sums = {};
  DATA.parts[name][key].forEach(part => { sums[part[0]] = (sums[part[0]] || 0) + part[3]; });
  return Math.max(...Object.values(sums));
}
