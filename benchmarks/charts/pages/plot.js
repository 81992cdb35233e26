// Observable Plot makes a picture; every change is a new picture.
import { dot, line, plot, pointer, ruleX, tip } from "@observablehq/plot";
import { byHand, colour, element, first, SIZE } from "./common.js";

let data, rows, places, at = 0.3, hidden = new Set(), range;
const sized = ([width, height]) => ({ width, height });
const ways = { x: "x", y: "y", z: "i" };

const lines = () => {
  const shown = rows.filter((row) => !hidden.has(row.i) && row.x >= range[0] && row.x <= range[1]);
  element("lines").replaceChildren(
    plot({
      ...sized(SIZE.lines),
      ariaLabel: "tails",
      x: { domain: range },
      y: { type: "log", domain: [1e-6, 1] },
      marks: [
        line(shown, { ...ways, stroke: (row) => colour(row.i), strokeWidth: 1 }),
        ruleX([at]),
        tip(shown, pointer({ ...ways, title: (row) => `${data.names[row.i]} ${row.y}` })),
      ],
    }),
  );
};
const points = (shown) =>
  element("points").replaceChildren(
    plot({ ...sized(SIZE.points), x: { domain: [-1, 1] }, y: { domain: [-1, 1] }, marks: [dot(shown, { r: 3, tip: true })] }),
  );

first({
  draw(given) {
    data = given;
    range = [data.x[0], data.x.at(-1)];
    rows = data.y.flatMap((ys, i) => ys.map((y, j) => ({ i, x: data.x[j], y: y ?? NaN })));
    places = data.before;
    lines();
    points(places);
  },
  threshold(x) {
    at = x;
    lines();
  },
  toggle(i, shown) {
    shown ? hidden.delete(i) : hidden.add(i);
    lines();
  },
  zoom(low, high) {
    range = [low, high];
    lines();
  },
  move(to) {
    byHand(places, to, points);
    places = to;
  },
});
