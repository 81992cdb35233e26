// A vertical line over a chart, such as the threshold. It is no part of the chart: to move it draws nothing else again.
const SVG = "http://www.w3.org/2000/svg";

/** An empty line over a chart; `at` says where it belongs on the horizontal axis (null: nowhere), and with what words. */
function uprightOver(chart, at) {
  const over = document.createElementNS(SVG, "svg");
  over.setAttribute("class", "over");
  over.setAttribute("aria-hidden", "true");
  const line = over.appendChild(document.createElementNS(SVG, "line"));
  const text = over.appendChild(document.createElementNS(SVG, "text"));
  chart.getDom().append(over);
  const place = () => {
    const { value, words } = at();
    const { left, right, top, bottom } = chart.getOption().grid[0];
    const x = value === null ? NaN : chart.convertToPixel({ xAxisIndex: 0 }, value);
    const seen = x >= left - 1 && x <= chart.getWidth() - right + 1; // a chart that is zoomed may not hold it
    over.toggleAttribute("hidden", !seen);
    if (!seen) return;
    over.setAttribute("viewBox", `0 0 ${chart.getWidth()} ${chart.getHeight()}`); // on paper both are scaled alike
    for (const [name, to] of Object.entries({ x1: x, x2: x, y1: top, y2: chart.getHeight() - bottom })) line.setAttribute(name, to);
    const late = x > chart.getWidth() / 2; // the words stay inside
    for (const [name, to] of Object.entries({ x: x + (late ? -6 : 6), y: top + 12, "text-anchor": late ? "end" : "start" })) text.setAttribute(name, to);
    text.textContent = words;
  };
  chart.on("datazoom", place);
  return place;
}
