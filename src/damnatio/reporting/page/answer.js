// The answer: which method, the marks of all, and the sentences of one.
/** The sign of a mark and its word, which a narrow screen shows to screen readers alone. */
const markParts = (mark) => [content.signs[content.marks[mark]], element("span", { className: "word", textContent: ` ${content.marks[mark]}` })];

function drawMarks() {
  const table = byId("marks");
  const keys = Object.keys(content.questions);
  const head = element("tr", {}, element("th", { scope: "col", textContent: "method" }), ...keys.map((key) => element("th", { scope: "col", textContent: content.short[key] })));
  const rows = byKind(altered(), keys.length + 1, (variant) => {
    const marks = panel().models[variant].answers[state.place];
    const choose = element("button", { type: "button", onclick: () => change({ model: variant }) }, ...namedParts(variant));
    return element("tr", { className: variant === state.model ? "chosen" : "" },
      element("td", {}, choose),
      ...marks.map(([mark]) => element("td", {}, element("span", { className: "mark", "data-mark": mark }, ...markParts(mark)))));
  });
  table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
  table.closest(".scroll").hidden = altered().length < 2;
}

function drawSentences() {
  const chosen = panel().recommended[state.place];
  byId("recommended").textContent = chosen ? chosen[1] : "No method was evaluated yet: only the original model is shown.";
  const answers = state.model ? panel().models[state.model].answers[state.place] : null;
  byId("sentences").hidden = !answers;
  byId("answer-of").textContent = answers ? named(state.model) : "";
  if (!answers) return;
  Object.keys(content.questions).forEach((key, number) => {
    const [mark, text] = answers[number];
    const line = document.querySelector(`[data-question="${key}"]`);
    const sign = line.querySelector(".mark");
    sign.textContent = `${content.signs[content.marks[mark]]} ${content.marks[mark]}`;
    sign.dataset.mark = mark;
    line.querySelector(".text").textContent = text;
  });
}

/** The recommended method is shown first, and stays where the reader chose another. */
function chooseModel() {
  const first = panel().recommended[state.place];
  if (!altered().includes(state.model)) state.model = first ? first[0] : null;
}
