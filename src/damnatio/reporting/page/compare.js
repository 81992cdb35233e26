// Several runs side by side. All numbers were computed in Python.
function drawCompared() {
  const { sides, targets, scales } = content.compared;
  const place = targets.indexOf(target());
  const key = byId("compare-group").value;
  const models = scales[byId("compare-scale").value] || {};
  const signed = (value) => `${value < 0 ? "−" : "+"}${fraction(Math.abs(value))}`;
  const cell = (found) => {
    if (!found) return element("td", { textContent: "–" });
    const [mean, spread, difference, low, high] = found;
    const value = `${fraction(mean)}${spread === null || spread === undefined ? "" : ` ± ${fraction(spread)}`}`;
    const ends = low === null || low === undefined ? "" : ` (${signed(low)} to ${signed(high)})`;
    const clear = low !== null && low !== undefined && (low > 0 || high < 0);
    const small = difference === undefined || difference === null ? "" : `${signed(difference)}${ends}${clear ? " *" : ""}`;
    return element("td", { "data-mean": mean }, value, element("small", {}, small));
  };
  const titles = sides.map(({ title, seeds, differs }) => element("th", { scope: "col" }, `${title}${differs ? " ≠" : ""}`, element("small", {}, seeds > 1 ? `${seeds} seeds` : "")));
  const shown = Object.keys(models).filter((name) => state.methods.has(name) && place >= 0 && models[name][key]?.[place].some(Boolean));
  const rows = byKind(shown, sides.length + 1, (name) => element("tr", { "data-variant": name }, element("td", {}, ...namedParts(name)), ...models[name][key][place].map(cell)));
  if (rows.length) rows.unshift(element("tr", { className: "chance" }, element("td", { textContent: "chance" }), ...sides.map(() => chanceOf(key))));
  byId("compare-table").replaceChildren(
    element("thead", {}, element("tr", {}, element("th", { scope: "col", textContent: "method" }), ...titles)),
    element("tbody", {}, ...rows));
  byId("compare-differs").replaceChildren(
    ...(place < 0 ? [element("li", { textContent: "Not all of these runs resolve the false match rate chosen above: choose a larger one." })] : []),
    element("li", { textContent: "* the interval of the difference does not hold 0" }),
    ...sides.filter(({ differs }) => differs).map(({ title, differs }) => element("li", { textContent: `≠ ${title}: another protocol than the first, so its rates do not measure the same: ${differs}` })));
}

function startCompared() {
  if (!content.compared) return;
  const { columns, scales } = content.compared;
  fill(byId("compare-group"), columns.map((key) => [key, `${content.columns[key].heading} (${content.columns[key].symbol})`]), "TMR Fev-Fev");
  fill(byId("compare-scale"), Object.keys(scales).map((name) => [name, name]), "");
  for (const id of ["compare-group", "compare-scale"]) byId(id).onchange = drawCompared;
  follow(["panel", "place", "methods"], drawCompared);
}
