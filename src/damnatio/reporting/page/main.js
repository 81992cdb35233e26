// The controls of the whole page.
function showTarget() {
  const where = panel().models[ORIGINAL] ? ORIGINAL : variants()[0];
  const found = panel().models[where].thresholds["1:1 D"];
  const words = `${oneIn(target())} (FMR ${target().toExponential()})`;
  const doubt = found && found.errors[state.place] < content.enough ? `; rests on ${found.errors[state.place]} false matches only` : "";
  byId("target-words").textContent = words + doubt;
  byId("target").setAttribute("aria-valuetext", words + doubt);
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").setAttribute("aria-pressed", name === "dark");
  change({ theme: name });
}

/** Another panel may have other targets: the nearest is chosen. */
function setPanel(number) {
  const wanted = target();
  state.panel = number;
  const { targets } = panel();
  const far = (at) => Math.abs(Math.log(at / wanted));
  state.place = targets.indexOf(targets.reduce((a, b) => (far(b) < far(a) ? b : a)));
  byId("target").max = targets.length - 1;
  byId("target").value = state.place;
  chooseModel();
  change({ panel: number, place: state.place, model: state.model });
}

function start() {
  document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  byId("theme").setAttribute("aria-pressed", dark());
  const shownFirst = (key) => !["TMR T single", "FMR FevxFev", "FMR RxR", "TPIR R", "TPIR Fev"].includes(key);
  state.place = panel().first;
  state.methods = new Set(Object.keys(content.variants));
  state.groups = new Set(Object.keys(content.columns).filter(shownFirst));
  chooseModel();
  const slider = byId("target");
  slider.max = panel().targets.length - 1;
  slider.value = state.place;
  let drawing = false; // a slider that is dragged moves faster than charts are drawn
  slider.oninput = () => {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => { drawing = false; change({ place: Number(slider.value) }); });
  };
  if (content.panels.length > 1) {
    byId("panel-label").hidden = false;
    fill(byId("panel"), content.panels.map(({ title }, number) => [String(number), title]), "0");
    byId("panel").onchange = (event) => setPanel(Number(event.target.value));
  }
  byId("theme").onclick = () => setTheme(dark() ? "light" : "dark");
  follow(["panel", "place"], showTarget);
  follow(["panel", "place", "model"], drawMarks);
  follow(["panel", "place", "model"], drawSentences);
  startPlane();
  startCharts();
  startTables();
  startCompared();
  const fit = () => { charts.forEach((chart) => chart.resize()); change({ size: innerWidth }); };
  addEventListener("resize", fit);
  let theme = "light";
  addEventListener("beforeprint", () => {
    theme = document.documentElement.dataset.theme;
    setTheme("light");
    for (const drawn of document.querySelectorAll(".chart svg")) {
      drawn.setAttribute("viewBox", `0 0 ${drawn.clientWidth} ${drawn.clientHeight}`); // so that the sheet can scale it
    }
  });
  addEventListener("afterprint", () => setTheme(theme));
}

start();
