// Zoom of charts. The wheel alone scrolls the page: a reader on the way down is not caught in a chart.
const ZOOM = [
  { type: "inside", xAxisIndex: 0, preventDefaultMouseMove: false }, // so that a finger scrolls the page as well
  { type: "inside", yAxisIndex: 0, preventDefaultMouseMove: false },
];
const NEARER = 0.7, STEP = 0.2;

/** What a key makes of the part of an axis that is shown, in percent; null if it means nothing there. */
function zoomed(key, { start, end }, vertical) {
  const wide = end - start, middle = (start + end) / 2;
  const around = (half) => [Math.max(0, middle - half), Math.min(100, middle + half)];
  const along = (by) => [start + by, end + by];
  const [less, more] = vertical ? ["ArrowDown", "ArrowUp"] : ["ArrowLeft", "ArrowRight"];
  if (key === "+" || key === "=") return around((wide * NEARER) / 2);
  if (key === "-") return around(wide / NEARER / 2);
  if (key === "0") return [0, 100];
  if (key === less) return along(-Math.min(start, STEP * wide));
  if (key === more) return along(Math.min(100 - end, STEP * wide));
  return null;
}

/** Ctrl and the wheel zoom; so do the keys of a chart that has the focus: + and -, arrows to move, 0 to show all. */
function zoomable(chart) {
  for (const wheel of ["wheel", "mousewheel"]) { // ECharts would keep every turn of it from the page, whatever it does with it
    chart.getDom().addEventListener(wheel, (event) => { if (!event.ctrlKey) event.stopPropagation(); }, { capture: true });
  }
  chart.getDom().tabIndex = 0;
  chart.getDom().addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return; // those are the browser's
    const batch = chart.getOption().dataZoom.map((shown, number) => [number, zoomed(event.key, shown, number === 1)])
      .filter(([, to]) => to).map(([dataZoomIndex, [start, end]]) => ({ dataZoomIndex, start, end }));
    if (!batch.length) return;
    event.preventDefault();
    chart.dispatchAction({ type: "dataZoom", batch });
  });
}
