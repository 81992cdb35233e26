import Plotly from "plotly.js-basic-dist-min";
import { colour, element, first, MOVE, SIZE } from "./common.js";

const sized = ([width, height]) => ({ width, height, margin: { t: 20 } });
const columns = (places) => ({ x: places.map(([x]) => x), y: places.map(([, y]) => y) });

first({
  draw(data) {
    Plotly.newPlot(
      element("lines"),
      data.names.map((name, i) => ({ name, x: data.x, y: data.y[i], mode: "lines", line: { color: colour(i), width: 1 } })),
      {
        ...sized(SIZE.lines),
        xaxis: { range: [data.x[0], data.x.at(-1)] },
        yaxis: { type: "log", range: [-6, 0] },
        shapes: [{ type: "line", x0: 0.3, x1: 0.3, y0: 0, y1: 1, yref: "paper" }],
      },
      { scrollZoom: true, displaylogo: false },
    );
    Plotly.newPlot(element("points"), [{ ...columns(data.before), mode: "markers" }], {
      ...sized(SIZE.points),
      xaxis: { range: [-1, 1] },
      yaxis: { range: [-1, 1] },
    });
  },
  threshold: (x) => Plotly.relayout(element("lines"), { "shapes[0].x0": x, "shapes[0].x1": x }),
  toggle: (i, shown) => Plotly.restyle(element("lines"), { visible: shown ? true : "legendonly" }, [i]),
  zoom: (low, high) => Plotly.relayout(element("lines"), { "xaxis.range": [low, high] }),
  move: (places) =>
    Plotly.animate(
      element("points"),
      { data: [columns(places)], traces: [0] },
      { transition: { duration: MOVE, easing: "cubic-in-out" }, frame: { duration: MOVE, redraw: false } },
    ),
});
