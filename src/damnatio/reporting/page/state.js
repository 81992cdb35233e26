// What the reader has chosen, and who has to know when it changes.
const content = JSON.parse(document.getElementById("content").textContent);
const ORIGINAL = "original";
const listeners = [];
const state = { panel: 0, place: 0, model: null, methods: new Set(), groups: new Set(), sort: null };

const panel = () => content.panels[state.panel];
const target = () => panel().targets[state.place];
/** Variants of the present panel in the order of the tables, the original model first. */
const variants = () => Object.keys(content.variants).filter((name) => name in panel().models);
const altered = () => variants().filter((name) => name !== ORIGINAL);

const KINDS = ["The original, and methods that change the network", "Maps behind a network that stays as it is: cut off, everybody is back"];
const isBehind = (name) => content.panels.some(({ models }) => models[name]?.behind);
/** Rows of these variants, those of the two kinds apart where there are both. */
function byKind(names, width, rowOf) {
  const kinds = [false, true].map((behind) => names.filter((name) => isBehind(name) === behind));
  return kinds.flatMap((mine, kind) => [
    ...(mine.length && kinds[1].length ? [element("tr", { className: "section" }, element("td", { colSpan: width, textContent: KINDS[kind] }))] : []),
    ...mine.map(rowOf)]);
}

function change(what) {
  Object.assign(state, what);
  for (const listen of listeners) listen(Object.keys(what));
}

/** Call `draw` now and whenever one of these choices changes. */
function follow(names, draw) {
  listeners.push((changed) => { if (changed.some((name) => names.includes(name))) draw(); });
  draw();
}

/** The rate of a column of a model at the chosen place: the same division of whole numbers as in Python. */
function rateOf(model, key, place = state.place) {
  const rates = panel().models[model].rates[key];
  if (!rates || rates.accepted[place] === null || !rates.count) return null;
  const accepted = rates.accepted[place];
  return { value: accepted / rates.count, accepted, count: rates.count, low: rates.low[place], high: rates.high[place] };
}

/** The threshold of a model for a task and calibration set, such as "1:1 D". */
function thresholdOf(model, where = "1:1 D", place = state.place) {
  const found = panel().models[model].thresholds[where];
  return found ? found.threshold[place] : null;
}
