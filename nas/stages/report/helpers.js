// Shared by all parts of the page. Data never become markup: text is set as text content, and escaped for plotly.
const DATA = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);

function el(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

const esc = text => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const short = key => key.slice(0, 12);
const measure = name => DATA.measures[name] || {label: name, unit: "", prefixes: false, quality: true};

function digits(value, n) {  // n significant ones, without an exponent
  return Number(value.toPrecision(n)).toLocaleString("en-US", {maximumFractionDigits: 12});
}

function show(name, value, unmeasured = 0) {  // a value of a measure, with its unit, and ~ where it was not measured
  if (value === null || value === undefined) return "–";
  return (unmeasured > 0 ? "~" : "") + withUnit(name, value);
}

function withUnit(name, value) {
  const {unit, prefixes, quality} = measure(name);
  if (quality) return value.toFixed(Math.abs(value) < 10 ? 4 : 2);
  if (unit === "ms" && value >= 1000) return `${digits(value / 1000, 4)} s`;
  if (!prefixes) return `${digits(value, 3)} ${unit}`.trim();
  for (const [size, sign] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (value >= size) return `${digits(value / size, 4)} ${sign}${unit}`;
  return `${Math.round(value)}${unit && " " + unit}`;
}

const percent = (value, n = 1) => value === null || value === undefined ? "–" : `${(100 * value).toFixed(n)} %`;

function axisTitle(name) {
  const of = measure(name);
  const unit = of.unit ? ` (${of.unit === "B" ? "bytes" : of.unit})` : "";
  return titled(of.label + unit + (of.quality ? (of.maximise ? ", higher is better" : ", lower is better") : ""));
}

const titled = text => ({text: esc(text), standoff: 10, font: {size: 13}});

function ticks([low, high]) {  // a log axis with 1, 2, 5 of every power of ten, or even steps where these are too few
  let found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
    [1, 2, 5].forEach(n => { const value = n * 10 ** power; if (value >= low && value <= high) found.push(value); });
  if (found.length < 3) found = evenSteps(low, high);
  const range = [Math.log10(low), Math.log10(high)];
  return {type: "log", tickvals: found, ticktext: found.map(value => digits(value, 6)), range};
}

function evenSteps(low, high) {  // three to seven values between two others
  const power = 10 ** Math.floor(Math.log10((high - low) / 4));
  const step = power * [1, 2, 5].findLast(n => n * power <= (high - low) / 3);
  const first = Math.ceil(low / step), count = Math.floor(high / step) - first + 1;
  return Array.from({length: count}, (_, i) => Number(((first + i) * step).toPrecision(6)));
}

function wrapped(text, most = 46) {  // at the dots between the words of a summary
  const lines = [""];
  for (const part of text.split(" · ")) {
    const last = lines[lines.length - 1];
    if (last && (last + part).length > most) lines.push(part);
    else lines[lines.length - 1] = last ? `${last} · ${part}` : part;
  }
  return lines.map(esc).join("<br>");
}

const probe = document.body.appendChild(el("i", {hidden: true}));
function colour(name) {  // a variable of the style as plotly wants it
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

const LEGEND = {orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: {size: 12}};
const SERIES = ["attends", "front", "convolves", "deep", "cross", "other", "end"];
const charts = new Map();  // the id of a chart -> what draws it

function draw(id, make) {  // make() returns the traces and the layout settings of this chart
  charts.set(id, make);
  const {traces, layout = {}} = make();
  const axis = {gridcolor: colour("line"), linecolor: colour("line"), zeroline: false, automargin: true};
  const merged = {
    font: {family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("text")},
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: {l: 56, r: 12, t: 12, b: 48},
    hovermode: "closest", dragmode: matchMedia("(hover: hover)").matches ? "zoom" : false,
    hoverlabel: {bgcolor: colour("surface"), bordercolor: colour("line"), align: "left",
                 font: {family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("text")}},
    legend: LEGEND, ...layout,
    xaxis: {...axis, ...layout.xaxis}, yaxis: {...axis, ...layout.yaxis},
  };
  resized.observe(byId(id));
  return Plotly.react(byId(id), traces, merged, {displaylogo: false, displayModeBar: false});
}

// Also when a neighbouring section appears. Immediately, because plotly resizes late and clips the chart until then.
const resized = new ResizeObserver(entries => entries.forEach(({target}) => {
  const drawn = target._fullLayout, off = (a, b) => Math.abs(a - b) > 1;
  if (!drawn || !target.offsetWidth) return;
  if (off(drawn.width, target.clientWidth) || off(drawn.height, target.clientHeight))
    Plotly.relayout(target, {autosize: true});
}));

const redraw = () => charts.forEach((make, id) => draw(id, make));

// Legend of a chart or a drawing: [class, text, CSS variable].
const inks = entries => entries.map(([name, text, ink]) => {
  const mark = el("i", {class: name});
  mark.style.setProperty("--ink", `var(--${ink})`);
  return el("li", {}, mark, text);
});

const wordy = column => column.words ? `words ${column.words === "few" ? "few" : ""}`.trim() : null;

function table(columns, rows, order) {
  // columns: {title, cell(row), sort(row), words: true or "few"}; rows that are `chosen` are highlighted
  const body = el("tbody"), heads = [];
  let by = order ? order.by : null, up = order ? order.up : true;
  const fill = () => {
    const sorted = by === null ? rows : [...rows].sort((a, b) => {
      const [x, y] = [columns[by].sort(a), columns[by].sort(b)];
      if (x === y) return 0;
      if (x === null || x === undefined) return 1;
      if (y === null || y === undefined) return -1;
      return (x < y ? -1 : 1) * (up ? 1 : -1);
    });
    body.replaceChildren(...sorted.map(row => el("tr", {class: row.chosen ? "chosen" : null},
      ...columns.map(column => el("td", {class: wordy(column)}, column.cell(row))))));
    heads.forEach((head, i) => columns[i].sort &&
      head.setAttribute("aria-sort", i === by ? (up ? "ascending" : "descending") : "none"));
  };
  columns.forEach((column, i) => {
    const sort = () => { up = by === i ? !up : true; by = i; if (order) Object.assign(order, {by, up}); fill(); };
    heads.push(el("th", {scope: "col", class: wordy(column)},
      column.sort ? el("button", {type: "button", onclick: sort}, column.title) : column.title));
  });
  fill();
  return el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body);
}

function choices(field, name, options, chosen, pick) {  // a row of radio buttons; hidden where there is no choice
  field.replaceChildren(field.querySelector("legend"), ...options.map(({value, label}) => el("label", {class: "choice"},
    el("input", {type: "radio", name, value, checked: value === chosen, onchange: () => pick(value)}),
    el("span", {}, label))));
  field.hidden = options.length < 2;
}
