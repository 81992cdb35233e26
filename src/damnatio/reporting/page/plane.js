// The map: photographs of some people, before and after.
const PEOPLE = ["#d1301f", "#1f6fd1", "#1d8f4f", "#8f3fb8", "#c77700", "#00889c", "#c2408f", "#6b6b1f"];
const PEOPLE_DARK = ["#ff7a6b", "#79b4ff", "#5fd394", "#d08cff", "#ffb347", "#4fd3e6", "#ff8fcb", "#cfcf5f"];
const plane = { chart: null, after: true };

function drawPlane() {
  const { images, models } = panel();
  const model = plane.after && state.model ? state.model : ORIGINAL;
  const places = (models[model] || models[Object.keys(models)[0]]).plane;
  const forgotten = [...new Set(images.filter(([, , kind]) => kind === "seen" || kind === "unseen").map(([, who]) => who))];
  const tones = dark() ? PEOPLE_DARK : PEOPLE;
  const point = ([image, who, kind], number) => ({
    id: image, name: image, value: places[number] || [NaN, NaN], who, kind,
    symbol: kind === "unseen" ? "triangle" : "circle",
    symbolSize: forgotten.includes(who) ? 11 : 6,
    itemStyle: forgotten.includes(who)
      ? { color: tones[forgotten.indexOf(who) % tones.length], borderColor: ink("paper"), borderWidth: 1 }
      : { color: ink("soft"), opacity: 0.45 },
  });
  const words = { seen: "to forget, used", unseen: "to forget, new", retain: "of the training, stays", test: "stranger, stays" };
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  plane.chart.setOption({
    animation: !still, animationDuration: 400, animationDurationUpdate: 1600, animationEasingUpdate: "cubicInOut",
    aria: { enabled: true },
    grid: { left: 8, right: 8, top: 8, bottom: 8 },
    xAxis: { min: -1.05, max: 1.05, show: false }, yAxis: { min: -1.05, max: 1.05, show: false },
    dataZoom: ZOOM,
    tooltip: {
      confine: true, backgroundColor: ink("paper"), textStyle: { color: ink("ink") },
      formatter: ({ data }) => element("div", { className: "tip" },
        content.pictures[data.name] ? element("img", { src: content.pictures[data.name], alt: "" }) : null,
        element("span", {}, element("b", { textContent: data.who }), element("br"), data.name, element("br"), words[data.kind])),
    },
    series: [{ type: "scatter", data: images.map(point), emphasis: { scale: 1.6 } }],
  });
  byId("map-state").textContent = model === ORIGINAL ? "Before: the original model" : `After: ${named(model)}`;
  byId("map-play").textContent = plane.after ? "Show it before" : "Show what it changed";
}

function startPlane() {
  plane.chart = chartIn("map-chart");
  byId("map-play").onclick = () => { plane.after = !plane.after; drawPlane(); };
  byId("map-model").onchange = (event) => change({ model: event.target.value });
  follow(["panel", "model", "theme"], () => {
    fill(byId("map-model"), altered().map((name) => [name, named(name)]), state.model);
    for (const id of ["map-model", "map-play"]) byId(id).disabled = !state.model;
    drawPlane();
  });
}
