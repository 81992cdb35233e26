import { colour, element, first, MOVE } from "./common.js";

// `over`: the threshold is an element of the page that lies over the chart, which then need not be drawn again.
export const show = (init, renderer, over = false) => {
  let lines, points, names, rule;
  const dots = (places) => ({ id: "people", type: "scatter", symbolSize: 6, data: places });
  const told = (row) => `${row.seriesName} ${row.value[1]}`;
  const mark = (at) => ({ symbol: "none", silent: true, label: { show: false }, data: [{ xAxis: at }] });
  first({
    draw(data) {
      names = data.names;
      lines = init(element("lines"), null, { renderer });
      lines.setOption({
        animation: false,
        aria: { enabled: true },
        grid: { left: 60, right: 20, top: 40, bottom: 80 },
        legend: { type: "scroll", top: 0 },
        tooltip: { trigger: "axis", formatter: (rows) => rows.slice(0, 8).map(told).join("<br>") },
        xAxis: { type: "value", min: data.x[0], max: data.x.at(-1) },
        yAxis: { type: "log", min: 1e-6, max: 1, axisLine: { onZero: false } },
        dataZoom: [{ type: "inside" }, { type: "slider" }],
        series: [
          ...data.names.map((name, i) => ({
            id: name, name, type: "line", showSymbol: false, color: colour(i), lineStyle: { width: 1 },
            data: data.x.map((x, j) => [x, data.y[i][j]]),
          })),
          { id: "threshold", type: "line", data: [], markLine: mark(over ? -9 : 0.3) },
        ],
      });
      if (over) {
        rule = element("lines").appendChild(document.createElement("div"));
        rule.style.cssText = "position: absolute; top: 40px; height: 300px; border-left: 1px dashed; pointer-events: none";
        this.threshold(0.3);
      }
      points = init(element("points"), null, { renderer });
      points.setOption({
        aria: { enabled: true },
        animationDuration: 0,
        animationDurationUpdate: MOVE,
        tooltip: { trigger: "item" },
        xAxis: { min: -1, max: 1 },
        yAxis: { min: -1, max: 1 },
        series: [dots(data.before)],
      });
    },
    threshold(at) {
      if (over) rule.style.left = `${lines.convertToPixel({ xAxisIndex: 0 }, at)}px`;
      else lines.setOption({ series: [{ id: "threshold", markLine: mark(at) }] });
    },
    toggle: (i, shown) => lines.dispatchAction({ type: shown ? "legendSelect" : "legendUnSelect", name: names[i] }),
    zoom: (low, high) => lines.dispatchAction({ type: "dataZoom", startValue: low, endValue: high }),
    move: (places) => points.setOption({ series: [dots(places)] }),
  });
};
