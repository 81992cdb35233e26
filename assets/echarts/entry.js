// The parts of ECharts that the report's page draws with. A part that is not named here is not in the file.
import { LineChart, ScatterChart } from "echarts/charts";
import {
  AriaComponent,
  DataZoomComponent, // both kinds: inside the chart, and the slider below it
  GridComponent,
  LegendComponent, // both kinds: plain, and with pages
  MarkLineComponent,
  TooltipComponent,
} from "echarts/components";
import { connect, getInstanceByDom, init, registerTheme, use, version } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";

use([
  LineChart,
  ScatterChart,
  AriaComponent,
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  TooltipComponent,
  SVGRenderer,
]);

export { connect, getInstanceByDom, init, registerTheme, version };
