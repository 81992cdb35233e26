// Distributions of scores, rates over the operating range, and what forgetting costs.
const charts = [];

function chartIn(id) {
  const chart = echarts.init(byId(id), null, { renderer: "svg" });
  charts.push(chart);
  zoomable(chart);
  return chart;
}

const axis = (name, more = {}) => ({
  name, nameLocation: "middle", nameGap: 30, nameTextStyle: { color: ink("soft") },
  axisLabel: { color: ink("soft"), hideOverlap: true }, axisLine: { onZero: false, lineStyle: { color: ink("soft") } },
  splitLine: { lineStyle: { color: ink("line") } }, ...more,
});
const common = () => ({
  animation: false, aria: { enabled: true }, textStyle: { color: ink("ink") },
  legend: { type: "scroll", bottom: 0, textStyle: { color: ink("ink") }, pageTextStyle: { color: ink("ink") }, inactiveColor: ink("soft") },
  grid: { left: 62, right: 18, top: 18, bottom: 86 },
  dataZoom: ZOOM,
});
/** Up to 0.02 in proportion, above by the logarithm: a destroyed model costs a hundred times what a good one does. */
const LINEAR = 0.02;
const bent = (value) => Math.sign(value) * (Math.abs(value) <= LINEAR ? Math.abs(value) / LINEAR : 1 + Math.log10(Math.abs(value) / LINEAR));
const BENT = [-0.02, -0.01, 0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1];
const bentAxis = (name) => axis(name, {
  type: "value", splitLine: { show: false }, min: ({ min }) => (min < 0 ? min - 0.1 : 0), max: ({ max }) => Math.max(max + 0.1, bent(LINEAR)), axisTick: { customValues: BENT.map(bent) },
  axisLabel: { color: ink("soft"), hideOverlap: true, customValues: BENT.map(bent), formatter: (at) => String(BENT.find((value) => Math.abs(bent(value) - at) < 1e-9) ?? "") },
});
const tip = { renderMode: "richText", confine: true };

// --- scores ---

const binAt = (number) => content.bins.low + number * content.bins.width;
const sum = (counts) => counts.reduce((total, count) => total + count, 0);

/** Density per unit of score, smoothed by the normal reference rule as the report's figures are. */
function density([first, counts]) {
  const { width } = content.bins, total = sum(counts);
  const mean = sum(counts.map((count, k) => count * k)) / total;
  const deviation = Math.sqrt(sum(counts.map((count, k) => count * (k - mean) ** 2)) / total);
  const broad = Math.min(12, Math.max(1.5, 0.9 * deviation * total ** -0.2)), reach = Math.floor(4 * broad);
  const kernel = Array.from({ length: 2 * reach + 1 }, (_, k) => Math.exp(-0.5 * ((k - reach) / broad) ** 2));
  const whole = sum(kernel), points = [];
  for (let at = -reach; at < counts.length + reach; at += 1) {
    let value = 0;
    for (let k = 0; k < kernel.length; k += 1) value += (counts[at + k - reach] || 0) * kernel[k];
    points.push([binAt(first + at + 0.5), value / whole / total / width, counts[at] || 0]);
  }
  return points;
}

/** The share of comparisons that score at least so much: what a threshold there would accept. */
function share([first, counts]) {
  const total = sum(counts), points = [];
  let above = total;
  counts.forEach((count, k) => { points.push([binAt(first + k), above / total, above]); above -= count; });
  return points;
}

const TONES = { "mated/Ftr-Ftr": "#b3392f", "mated/Ftr-Fev": "#d9772b", "mated/Fev-Fev": "#a0359c", "mated/avg(Ftr)-Fev": "#7a5a00", "mated/T": "#2f6db3", "mated/R": "#1d8f6f", "non-mated/T single": "#6b7280", "non-mated/FtrxFtr": "#9a8f7a" };
const SECOND = ["non-mated/FtrxFtr", "mated/avg(Ftr)-Fev"]; // lines that a reader has to ask for

function drawScores(chart) {
  const log = byId("scores-log").checked;
  const model = byId("scores-model").value || ORIGINAL;
  const line = (variant, key, dashed) => ({
    name: content.scores[key].name, type: "line", showSymbol: false, color: TONES[key],
    lineStyle: { width: dashed ? 1 : 2, type: dashed ? "dashed" : "solid", opacity: dashed ? 0.6 : 1 },
    data: (log ? share : density)(panel().models[variant].scores[key]),
  });
  const shown = Object.keys(content.scores).filter((key) => state.lines.has(key));
  const series = shown.filter((key) => key in panel().models[model].scores).map((key) => line(model, key, false));
  if (model !== ORIGINAL && panel().models[ORIGINAL]) {
    series.push(...shown.filter((key) => key in panel().models[ORIGINAL].scores).map((key) => line(ORIGINAL, key, true)));
  }
  chart.setOption({
    ...common(), tooltip: { ...tip, trigger: "axis", formatter: (points) => [`score ${fraction(points[0].value[0])}`, ...points.slice(0, 8).map((p) => `${p.seriesName}: ${counted(p.value[2])}`)].join("\n") },
    legend: { show: false }, grid: { ...common().grid, bottom: 50 },
    xAxis: axis("similarity score", { type: "value", min: -0.6, max: 1 }),
    yAxis: axis(log ? "share that scores at least this" : "density", { type: log ? "log" : "value", nameGap: 44, min: log ? 1e-6 : 0, max: log ? 1 : null, axisLabel: { color: ink("soft"), formatter: (value) => (log ? value.toExponential(0) : value) } }),
    series,
  }, { notMerge: true });
}

// --- the operating range ---

/** A method's marker and dash are those of the report's figures. */
const symbolOf = (name) => ({ symbol: `path://${content.variants[name].marker}`, symbolKeepAspect: true });
const dashOf = (name, width) => (content.variants[name].dash.length ? content.variants[name].dash.map((length) => length * width) : "solid");

function drawRange(chart) {
  const key = byId("det-group").value, log = byId("det-log").checked;
  const { targets, models } = panel();
  const shown = variants().filter((name) => state.methods.has(name) && models[name].rates[key]);
  const series = shown.map((name) => ({
    name: titleOf(name), type: "line", color: colourOf(name), ...symbolOf(name),
    showSymbol: true, showAllSymbol: false, symbolSize: 8,
    lineStyle: { width: 2, type: dashOf(name, 2) },
    data: targets.map((at, place) => [at, rateOf(name, key, place)?.value ?? NaN, place]).filter(([, value]) => value > 0 || (value === 0 && !log)),
  }));
  const lowest = Math.min(1, ...series.flatMap(({ data }) => data.map(([, value]) => value)));
  const most = content.columns[key].metric === "FMR" ? null : 1;
  chart.setOption({
    ...common(), tooltip: { ...tip, trigger: "axis", formatter: (points) => [oneIn(points[0].value[0]), ...points.map((p) => `${p.seriesName}: ${fraction(p.value[1])} (${explained(rateOf(shown[p.seriesIndex], key, p.value[2]))})`)].join("\n") },
    xAxis: axis("false matches allowed (FMR or FPIR)", { type: "log", min: targets[0], max: targets.at(-1), axisLabel: { color: ink("soft"), formatter: (value) => value.toExponential(0) } }),
    yAxis: log
      ? axis("rate", { type: "log", min: 10 ** Math.floor(Math.log10(lowest)), max: most, nameGap: 44, axisLabel: { color: ink("soft"), formatter: (value) => value.toExponential(0) } })
      : axis("rate", { type: "value", min: 0, max: most, nameGap: 44 }),
    series,
  }, { notMerge: true });
}

// --- what forgetting costs ---

/** Whether another point is as low on both axes and lower on one. */
const beaten = (points) => points.map(([x, y]) => points.some(([a, b]) => a <= x && b <= y && (a < x || b < y)));

function drawCosts(chart, x, y, coordinates, lowerIsBetter) {
  const shown = altered().filter((name) => state.methods.has(name));
  const found = shown.map((name) => [name, ...coordinates(name)]).filter(([, a, b]) => a !== null && b !== null);
  const hollow = beaten(found.map(([, a, b]) => [a, lowerIsBetter ? b : -b]));
  chart.setOption({
    ...common(), legend: { show: false }, grid: { left: 62, right: 40, top: 24, bottom: 50 },
    tooltip: { ...tip, formatter: ({ data }) => `${data.full}\n${x}: ${fraction(data.a)}\n${y}: ${fraction(data.b)}${data.hollow ? "\nanother method beats it in both" : ""}` },
    xAxis: bentAxis(x), yAxis: lowerIsBetter ? { ...bentAxis(y), nameGap: 44 } : axis(y, { type: "value", nameGap: 44, max: 1, min: ({ min }) => Math.floor((Math.min(min, 0.95) - 0.05) * 10) / 10 }),
    series: [{
      type: "scatter", symbolSize: 13,
      data: found.map(([name, a, b], number) => ({
        ...symbolOf(name), value: [bent(a), lowerIsBetter ? bent(b) : b], a, b, full: named(name), hollow: hollow[number],
        itemStyle: { color: hollow[number] ? "transparent" : colourOf(name), borderColor: colourOf(name), borderWidth: 2 },
        label: { show: true, position: "right", formatter: titleOf(name), color: ink("ink") },
      })),
      labelLayout: { hideOverlap: false, moveOverlap: "shiftY" },
    }],
  }, { notMerge: true });
}

function fellBy(name, key) {
  const before = rateOf(ORIGINAL, key), after = rateOf(name, key);
  return before && after ? before.value - after.value : null;
}

function startCharts() {
  const scores = chartIn("scores-chart"), range = chartIn("det-chart"), weak = chartIn("weak-chart"), strong = chartIn("strong-chart");
  const threshold = uprightOver(scores, () => {
    const tau = thresholdOf(byId("scores-model").value || ORIGINAL);
    return { value: tau, words: `threshold τ ${fraction(tau)}` };
  });
  const allowed = uprightOver(range, () => ({ value: target(), words: "" }));
  const redrawScores = () => { drawScores(scores); threshold(); };
  const redrawRange = () => { drawRange(range); allowed(); };
  byId("scores-log").onchange = redrawScores;
  byId("scores-model").onchange = redrawScores;
  byId("det-group").onchange = redrawRange;
  byId("det-log").onchange = redrawRange;
  follow(["panel"], () => {
    const groups = panel().columns.map((key) => [key, `${content.columns[key].heading} (${content.columns[key].symbol})`]);
    fill(byId("det-group"), groups, byId("det-group").value);
  });
  follow(["panel", "model"], () => fill(byId("scores-model"), variants().map((name) => [name, named(name)]), state.model || ORIGINAL));
  state.lines = new Set(Object.keys(content.scores).filter((key) => !SECOND.includes(key)));
  chips("scores-lines", Object.entries(content.scores).map(([key, { name, symbol }]) => [key, `${name} (${symbol})`, TONES[key]]), state.lines, "lines");
  follow(["panel", "model", "theme", "lines"], redrawScores);
  follow(["panel", "methods", "theme"], redrawRange);
  follow(["place", "size"], () => { threshold(); allowed(); });
  follow(["panel", "place", "methods", "theme"], () =>
    drawCosts(weak, "recognition of strangers lost", "linking of new photographs lost", (name) => [fellBy(name, "TMR T"), fellBy(name, "TMR Fev-Fev")], false));
  follow(["panel", "methods", "theme"], () =>
    drawCosts(strong, "footprint", "distance to strangers (W1)", (name) => [panel().models[name].distances.footprint, panel().models[name].distances.W1], true));
}
