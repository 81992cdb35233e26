import {
  Chart,
  Legend,
  LinearScale,
  LineController,
  LineElement,
  LogarithmicScale,
  PointElement,
  ScatterController,
  Tooltip,
} from "chart.js";
import annotation from "chartjs-plugin-annotation";
import zoom from "chartjs-plugin-zoom";
import { colour, element, first, MOVE, SIZE } from "./common.js";

Chart.register(Legend, LinearScale, LineController, LineElement, LogarithmicScale, PointElement, ScatterController);
Chart.register(Tooltip, annotation, zoom);

const canvas = (name) => {
  const made = document.createElement("canvas");
  [made.width, made.height] = SIZE[name];
  element(name).append(made);
  return made;
};
const dots = (places) => places.map(([x, y]) => ({ x, y }));
let lines, points;

first({
  draw(data) {
    lines = new Chart(canvas("lines"), {
      type: "line",
      data: {
        datasets: data.names.map((label, i) => ({
          label, borderColor: colour(i), borderWidth: 1, pointRadius: 0, data: data.x.map((x, j) => ({ x, y: data.y[i][j] })),
        })),
      },
      options: {
        animation: false,
        responsive: false,
        parsing: false,
        normalized: true,
        interaction: { mode: "nearest", intersect: false },
        scales: {
          x: { type: "linear", min: data.x[0], max: data.x.at(-1) },
          y: { type: "logarithmic", min: 1e-6, max: 1 },
        },
        plugins: {
          annotation: { annotations: { threshold: { type: "line", scaleID: "x", value: 0.3, borderWidth: 1 } } },
          legend: { display: false }, // 80 names leave no room for the chart
          zoom: { zoom: { wheel: { enabled: true }, mode: "x" }, pan: { enabled: true, mode: "x" } },
        },
      },
    });
    points = new Chart(canvas("points"), {
      type: "scatter",
      data: { datasets: [{ data: dots(data.before), backgroundColor: colour(0) }] },
      options: {
        animation: { duration: MOVE },
        responsive: false,
        scales: { x: { min: -1, max: 1 }, y: { min: -1, max: 1 } },
        plugins: { legend: { display: false } },
      },
    });
  },
  threshold(x) {
    lines.options.plugins.annotation.annotations.threshold.value = x;
    lines.update("none");
  },
  toggle(i, shown) {
    lines.setDatasetVisibility(i, shown);
    lines.update("none");
  },
  zoom: (min, max) => lines.zoomScale("x", { min, max }, "none"),
  move(places) {
    dots(places).forEach((place, i) => Object.assign(points.data.datasets[0].data[i], place));
    points.update();
  },
});
