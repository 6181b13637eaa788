// Header and footer of the page, colour theme, and the order of initialisation.
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
  byId("theme").title = "Light, dark, or the system's setting";
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
    [!DATA.curves.length, "training curves", `nas train --resume ${DATA.run}`],
    [!search, "a front, its hypervolume and architectures", `nas search ${DATA.run}`],
    [search && !devices.length, "latency on a device",
     `nas profile cpu --space runs/${DATA.run}, then nas search ${DATA.run} --fresh --device cpu`],
    [search && !search.importance, "importance of dimensions (needs 30 trials)", `nas search ${DATA.run} --more 50`],
    [search && !DATA.picked.length, "extracted models", `nas extract ${DATA.run} --knee`],
    [DATA.picked.length && !retrained, "a retrained model", `nas retrain ${subnet}`],
    [DATA.picked.length && !DATA.gaps.some(gap => gap.source), "measured latency of an extracted model",
     `nas measure ${subnet} --device ${device}`],
    ...devices.filter(name => !DATA.checks.some(check => check.device === name))
      .map(name => [true, `accuracy of the profile of ${name}`, `nas profile ${name} --check`]),
    [!DATA.ranked, "ranking quality of the supernet", `nas rank ${DATA.run}`],
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
