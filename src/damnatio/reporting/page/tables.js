// Tables: rates of every method and group, and single people.
function heading(text, small, key, sorted, choose) {
  const button = element("button", { type: "button", onclick: choose }, text);
  const cell = element("th", { scope: "col" }, button, small ? element("small", {}, small) : null);
  if (sorted && sorted.key === key) cell.setAttribute("aria-sort", sorted.up ? "ascending" : "descending");
  return cell;
}

/** What chance gives in a column, or gives at most. */
function chanceOf(key) {
  const value = panel().chance[key]?.[state.place] ?? null;
  const most = /^(TPIR|linked_people) /.test(key) ? "≤ " : "";
  return element("td", { "data-chance": key, textContent: value === null ? "–" : most + fraction(value, 4) });
}

function drawRates() {
  const keys = panel().columns.filter((key) => state.groups.has(key));
  const choose = (key) => () => change({ sort: { key, up: state.sort?.key === key ? !state.sort.up : content.columns[key]?.good === "low" } });
  const shown = variants().filter((name) => state.methods.has(name));
  if (state.sort) {
    const { key, up } = state.sort;
    const last = up ? Infinity : -Infinity; // whoever has no rate
    const value = (name) => (key === "threshold" ? thresholdOf(name) : key === "method" ? variants().indexOf(name) : rateOf(name, key)?.value) ?? last;
    shown.sort((a, b) => (up ? 1 : -1) * (value(a) - value(b)) || 0);
  }
  const head = element("tr", {},
    heading("method", "", "method", state.sort, choose("method")),
    heading("threshold", "τ", "threshold", state.sort, choose("threshold")),
    ...keys.map((key) => heading(content.columns[key].heading, content.columns[key].symbol, key, state.sort, choose(key))));
  const rows = byKind(shown, keys.length + 2, (name) => element("tr", { "data-variant": name },
    element("td", {}, element("span", { className: "swatch", style: `background:${colourOf(name)}` }), ...namedParts(name)),
    element("td", { textContent: fraction(thresholdOf(name)) }),
    ...keys.map((key) => {
      const rate = rateOf(name, key);
      if (!rate) return element("td", { "data-column": key, textContent: "–", title: "too few comparisons to calibrate this rate" });
      return element("td", { "data-column": key, "data-rate": rate.value, title: explained(rate) },
        fraction(rate.value), element("small", {}, rate.low === null ? "" : `${fraction(rate.low)}–${fraction(rate.high)}`));
    })));
  const chance = element("tr", { className: "chance" }, element("td", { textContent: "chance" }), element("td", {}), ...keys.map((key) => chanceOf(key)));
  byId("rates").replaceChildren(element("thead", {}, head), element("tbody", {}, chance, ...rows));
}

const WORDS = ["state", "the pair", "photographs"]; // headings of columns that hold words
const plainTable = (id, titles, rows) => byId(id).replaceChildren(
  element("thead", {}, element("tr", {}, ...titles.map((title) => element("th", { scope: "col", className: WORDS.includes(title) ? "text" : "", textContent: title })))),
  element("tbody", {}, ...rows));
const cells = (values) => element("tr", {}, ...values.map((value) => element("td", { className: typeof value === "string" || value.className === "mark" ? "text" : "" }, typeof value === "number" ? fraction(value) : value)));

function drawPeople() {
  const name = byId("people-model").value || ORIGINAL;
  const model = panel().models[name];
  const tau = thresholdOf(name);
  const unlinked = rateOf(name, "weakly_forgotten F");
  const pairs = ["Ftr-Ftr", "Ftr-Fev", "Fev-Fev"].reduce((total, group) => total + (rateOf(name, `TMR ${group}`)?.count ?? 0), 0);
  const each = unlinked ? pairs / unlinked.count : 0;
  const few = each * target() < 0.1 ? "fewer than 0.1" : `about ${fraction(each * target(), 1)}`;
  const chance = each ? ` A person has about ${counted(Math.round(each))} pairs here. Of as many pairs of strangers, ${few} would link by chance.` : "";
  byId("people-count").textContent = unlinked
    ? `${counted(unlinked.accepted)} of ${counted(unlinked.count)} people have no pair of photographs that still links (threshold ${fraction(tau)}).${unlinked.count > model.forgotten.length && model.forgotten.length ? ` The ${model.forgotten.length} worst are listed.` : ""}${chance}`
    : "";
  const best = (row) => row.filter(Boolean).reduce((a, b) => (b[1] > a[1] ? b : a));
  const linked = (score) => element("span", { className: "mark", "data-mark": score >= tau ? 2 : 0, textContent: score >= tau ? "✗ links" : "✓ no link" });
  plainTable("forgotten", ["person", "state", "highest score", "two used", "used and new", "two new", "the pair"], model.forgotten.map(([who, groups]) => {
    const [, highest, first, second] = best(groups);
    return cells([who, linked(highest), highest, ...groups.map((group) => (group ? group[1] : "–")), `${first} · ${second}`]);
  }));
  const group = byId("links-group").value;
  const rows = model.links[group] || [];
  const rate = rateOf(name, `TMR ${group}`);
  byId("links-count").textContent = rate ? `${counted(rate.accepted)} of ${counted(rate.count)} such pairs link; the ${rows.length} highest are listed.` : "";
  plainTable("links", ["person", "state", "score", "photographs"], rows.map(([who, first, second, score]) => cells([who, linked(score), score, `${first} · ${second}`])));
  const kept = byId("losses-group").value;
  const losses = ((model.losses || {})[kept] || []).filter(([, , before, after]) => after < before);
  plainTable("losses", ["person", "mean before", "mean after", "change", "lowest after", "comparisons"],
    losses.map(([who, count, before, after, lowest]) => cells([who, before, after, after - before, lowest, element("span", {}, counted(count))])));
  byId("losses-count").textContent = losses.length || !model.losses ? "" : "Nobody's mean score fell.";
}

function chips(id, entries, chosen, name) {
  byId(id).replaceChildren(...entries.map(([value, text, colour]) => {
    const box = element("input", { type: "checkbox", checked: chosen.has(value), value, onchange: (event) => {
      const next = new Set(state[name]);
      if (event.target.checked) next.add(value); else next.delete(value);
      change({ [name]: next });
    } });
    return element("label", {}, box, colour ? element("span", { className: "swatch", style: `background:${colour}` }) : null, text);
  }));
}

function startTables() {
  follow(["panel", "theme"], () => {
    chips("methods", variants().map((name) => [name, named(name), colourOf(name)]), state.methods, "methods");
    chips("groups", panel().columns.map((key) => [key, `${content.columns[key].heading} (${content.columns[key].symbol})`]), state.groups, "groups");
  });
  follow(["panel", "place", "methods", "groups", "sort", "theme"], drawRates);
  follow(["panel", "model"], () => {
    fill(byId("people-model"), variants().map((name) => [name, named(name)]), state.model || ORIGINAL);
    const groups = { "Ftr-Ftr": "two used photographs", "Ftr-Fev": "a used and a new one", "Fev-Fev": "two new ones", "avg(Ftr)-Fev": "averaged template and a new one" };
    fill(byId("links-group"), Object.entries(groups), byId("links-group").value);
    const kept = { T: "strangers (test)", R: "people of the training (retained)", B: "bystanders" };
    const known = new Set(altered().flatMap((name) => Object.keys(panel().models[name].losses || {})));
    fill(byId("losses-group"), Object.entries(kept).filter(([key]) => known.has(key)), byId("losses-group").value);
  });
  for (const id of ["people-model", "links-group", "losses-group"]) byId(id).onchange = drawPeople;
  follow(["panel", "place", "model"], drawPeople);
}
