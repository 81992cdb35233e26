// What every page shares: the data's colours, the positions in between, and the clock. Each page defines `chart`.
const HUES = 10;
// With commas: ECharts does not understand the newer spelling, and would lose a line that the mouse touches.
export const colour = (index) => `hsl(${((index % HUES) * 360) / HUES}, 70%, ${30 + 4 * Math.floor(index / HUES)}%)`;
export const element = (name) => document.getElementById(name);
export const SIZE = { lines: [1000, 420], points: [600, 420] };
export const MOVE = 800; // milliseconds

const frame = () => new Promise((done) => requestAnimationFrame(done));

// A task that is posted from within a frame runs after that frame's layout and paint.
const painted = async () => {
  await frame();
  await new Promise((done) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = done;
    port2.postMessage(0);
  });
};

// For libraries that do not animate: draw every place between two, until the time is over.
export const byHand = (from, to, draw) => {
  const started = performance.now();
  const step = () => {
    const share = Math.min(1, (performance.now() - started) / MOVE);
    draw(from.map(([x, y], i) => [x + share * (to[i][0] - x), y + share * (to[i][1] - y)]));
    if (share < 1) requestAnimationFrame(step);
  };
  step();
};

// Milliseconds from the start of the library's script to the first picture.
export const first = (chart) => {
  chart.draw(window.DATA);
  window.chart = chart;
  window.firstDrawing = painted().then(() => performance.now() - window.started);
};

// Milliseconds per call; the calls follow each other as quickly as pictures can.
window.each = async (calls) => {
  await painted();
  const started = performance.now();
  for (const [name, ...words] of calls) {
    window.chart[name](...words);
    await painted();
  }
  return (performance.now() - started) / calls.length;
};

// Milliseconds per picture of an animation.
window.animate = async (places) => {
  await painted();
  const started = performance.now();
  let frames = 0;
  window.chart.move(places);
  while (performance.now() - started < MOVE) {
    await frame();
    frames += 1;
  }
  return (performance.now() - started) / frames;
};
