import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { byHand, colour, element, first, SIZE } from "./common.js";

let lines, points, at = 0.3, places;
const sized = ([width, height]) => ({ width, height });
const columns = (shown) => {
  const sorted = [...shown].sort((a, b) => a[0] - b[0]); // uPlot wants ascending x
  return [sorted.map(([x]) => x), sorted.map(([, y]) => y)];
};
const rule = (u) => {
  const x = u.valToPos(at, "x", true);
  u.ctx.beginPath();
  u.ctx.moveTo(x, u.bbox.top);
  u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
  u.ctx.stroke();
};

first({
  draw(data) {
    lines = new uPlot(
      {
        ...sized(SIZE.lines),
        scales: { x: { time: false }, y: { distr: 3, range: [1e-6, 1] } },
        series: [{}, ...data.names.map((label, i) => ({ label, stroke: colour(i), width: 1, points: { show: false } }))],
        cursor: { focus: { prox: 30 } },
        legend: { show: true },
        hooks: { draw: [rule] },
      },
      [data.x, ...data.y],
      element("lines"),
    );
    places = data.before;
    points = new uPlot(
      {
        ...sized(SIZE.points),
        scales: { x: { time: false, range: [-1, 1] }, y: { range: [-1, 1] } },
        series: [{}, { label: "people", stroke: colour(0), paths: () => null, points: { show: true, size: 6 } }],
      },
      columns(places),
      element("points"),
    );
  },
  threshold(x) {
    at = x;
    lines.redraw(false, false);
  },
  toggle: (i, show) => lines.setSeries(i + 1, { show }),
  zoom: (min, max) => lines.setScale("x", { min, max }),
  move(to) {
    byHand(places, to, (shown) => points.setData(columns(shown)));
    places = to;
  },
});
