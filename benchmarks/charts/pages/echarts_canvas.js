// The parts of assets/echarts/entry.js, with the other renderer.
import { LineChart, ScatterChart } from "echarts/charts";
import {
  AriaComponent,
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  TooltipComponent,
} from "echarts/components";
import { init, use } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import { show } from "./echarts_page.js";

use([LineChart, ScatterChart, AriaComponent, DataZoomComponent, GridComponent, LegendComponent]);
use([MarkLineComponent, TooltipComponent, CanvasRenderer]);
show(init, "canvas");
