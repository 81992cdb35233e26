import { init } from "../../../assets/echarts/entry.js";
import { show } from "./echarts_page.js";

show(init, "svg", true);
