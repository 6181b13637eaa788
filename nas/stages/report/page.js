// The top and the end of the page, light and dark, and the order in which all is set up.
const WHAT = {lm: "language model", classification: "text classifier", translation: "translation model"};
const THEMES = ["auto", "light", "dark"];

function setUpTop() {
  byId("run").textContent = DATA.run;
  byId("about").textContent = [`space ${DATA.space}`, WHAT[DATA.task] || DATA.task, search && search.date]
    .filter(Boolean).join(" · ");
  const tiles = search ? search.tiles : [];
  byId("tiles").hidden = !tiles.length;
  byId("tiles").replaceChildren(...tiles.map(([what, figure, word]) => el("div", {}, el("dt", {}, what),
    el("dd", {class: "figure"}, figure), el("dd", {class: "word"}, word))));
  byId("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

let theme = "auto";
function setTheme(name) {
  theme = name;
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  byId("theme").textContent = {auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark"}[name];
  byId("theme").title = "Light, dark, or as the system has it";
  redraw();
}

function setUpFiles() {
  const files = Object.entries(DATA.files);
  byId("files").hidden = !files.length;
  byId("texts").replaceChildren(...files.map(([name, text]) => el("details", {}, el("summary", {}, name),
    el("pre", {tabindex: "0", "aria-label": name}, text))));
}

function setUpMissing() {
  const retrained = DATA.picked.some(each => each.steps.some(step => step.stage === "retrain"));
  const subnet = DATA.picked.length ? `${DATA.run}/${DATA.picked[0].name}` : `${DATA.run}/KEY`;
  const devices = search ? [...new Set(search.costs.map(deviceOf))].filter(name => name !== NO_DEVICE) : [];
  const device = devices[0] || "DEVICE";
  const commands = [
    [!DATA.curves.length, "curves of the training", `nas train --resume ${DATA.run}`],
    [!search, "a front, its hypervolume and architectures", `nas search ${DATA.run}`],
    [search && !devices.length, "latency on a device",
     `nas profile cpu --space runs/${DATA.run}, then nas search ${DATA.run} --fresh --device cpu`],
    [search && !search.importance, "which choices matter, from 30 trials on", `nas search ${DATA.run} --more 50`],
    [search && !DATA.picked.length, "models that were extracted", `nas extract ${DATA.run} --knee`],
    [DATA.picked.length && !retrained, "a model trained on its own", `nas retrain ${subnet}`],
    [DATA.picked.length && !DATA.gaps.some(gap => gap.source), "latency of an extracted model, measured",
     `nas measure ${subnet} --device ${device}`],
    ...devices.filter(name => !DATA.checks.some(check => check.device === name))
      .map(name => [true, `how true the profile of ${name} is`, `nas profile ${name} --check`]),
    [!DATA.ranked, "how well the supernet ranks", `nas rank ${DATA.run}`],
  ].filter(([missing]) => missing);
  byId("missing").hidden = !commands.length;
  byId("commands").replaceChildren(...commands.flatMap(([, what, command]) =>
    [el("dt", {}, what), el("dd", {}, el("code", {}, command))]));
}

addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(each => { each.open = true; }));
setUpTop();
if (search) setUpFront();
setUpArchitecture();
setUpPicked();
setUpVolume();
setUpImportance();
setUpTruth();
setUpCurves();
setUpRanking();
setUpFiles();
setUpMissing();
setTheme("auto");
document.documentElement.dataset.ready = "";
