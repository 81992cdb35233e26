// Write ECharts as one file for the report's page, and the licences of all that is in it: `make charts-asset`.
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { buildSync, version as esbuild } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../../src/damnatio/reporting/page");

const text = (name) => readFileSync(join(here, "node_modules", name), "utf8");
const named = (name) => `${name} ${JSON.parse(text(`${name}/package.json`)).version}`;

const write = (name, content) => {
  const partial = join(target, `.partial-${name}`);
  writeFileSync(partial, content);
  renameSync(partial, join(target, name));
};

const { outputFiles } = buildSync({
  entryPoints: [join(here, "entry.js")],
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "echarts",
  target: "es2018",
  charset: "ascii",
  legalComments: "none", // the licences are in a file of their own, whole
  write: false,
});
const title =
  `/*! Apache ${named("echarts")} (Apache-2.0), parts of it, with ${named("zrender")} (BSD-3-Clause) and ` +
  `${named("tslib")} (0BSD); licences: echarts.LICENSE; made by: make charts-asset (esbuild ${esbuild}) */`;
write("echarts.js", `${title}\n${outputFiles[0].text}`);

const licences = [
  ["echarts/LICENSE", `Apache ${named("echarts")}: LICENSE`],
  ["echarts/NOTICE", `Apache ${named("echarts")}: NOTICE`],
  ["echarts/licenses/LICENSE-d3", `Apache ${named("echarts")}: licenses/LICENSE-d3`],
  ["zrender/LICENSE", `${named("zrender")}: LICENSE`],
  ["tslib/LICENSE.txt", `${named("tslib")}: LICENSE.txt`],
];
const bar = "=".repeat(80);
const pages = licences.map(([file, heading]) => `${bar}\n${heading}\n${bar}\n\n${text(file).trim()}\n`);
write("echarts.LICENSE", `The licences of what is in echarts.js, as published on npm.\n\n${pages.join("\n\n")}`);

console.log(`${join(target, "echarts.js")}: ${Math.round(outputFiles[0].contents.length / 1000)} kB`);
