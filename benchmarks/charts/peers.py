"""The charting libraries: fetched from npm into a scratch folder, bundled with their pages; what npm says of them."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from damnatio.support.errors import DamnatioError

HERE = Path(__file__).resolve().parent
COUNTED_SINCE = "2025-01-01"
"""A registry may be a mirror that dates a version by the day it first held it; the one at hand began shortly before."""


@dataclass(frozen=True)
class Peer:
    """A library as one page uses it; what it cannot do by itself is written by hand in its page, or is missing."""

    name: str
    page: str
    packages: tuple[str, ...]
    by_hand: str = ""
    lacks: str = ""


OURS = Peer("ECharts, SVG", "echarts_svg", ("echarts",))
PEERS = (
    OURS,
    Peer("ECharts, SVG, threshold over it", "echarts_over", ("echarts",), "threshold"),
    Peer("ECharts, canvas", "echarts_canvas", ("echarts",)),
    Peer("uPlot", "uplot", ("uplot",), "threshold, animation", "tooltip, a legend that scrolls, labels below 0.001"),
    Peer("Plotly, basic", "plotly", ("plotly.js-basic-dist-min",)),
    Peer("Observable Plot", "plot", ("@observablehq/plot",), "toggling, animation", "zoom by mouse, a legend to click"),
    Peer(
        "Chart.js",
        "chartjs",
        ("chart.js", "chartjs-plugin-zoom", "chartjs-plugin-annotation"),
        lacks="a legend that scrolls",
    ),
)


@dataclass(frozen=True)
class Upkeep:
    """What the registry says of a package; its newest version was published on that day or before."""

    version: str
    licence: str
    newest: str
    releases: int


def fetch(scratch: Path) -> None:
    """Install the locked versions into the scratch folder."""
    scratch.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, scratch / name)
    _npm("ci", "--no-audit", "--no-fund", "--silent", cwd=scratch)


def bundle(peer: Peer, scratch: Path) -> tuple[str, str]:
    """The library with its page as one minified script, and its style sheet; neither needs anything else."""
    out = scratch / "out" / f"{peer.page}.js"
    command = [
        *[str(scratch / "node_modules/.bin/esbuild"), str(HERE / "pages" / f"{peer.page}.js"), f"--outfile={out}"],
        *["--bundle", "--minify", "--format=iife", "--target=es2020", "--legal-comments=none", "--log-level=warning"],
    ]
    subprocess.run(command, check=True, env={**os.environ, "NODE_PATH": str(scratch / "node_modules")})
    style = out.with_suffix(".css")
    return out.read_text(), style.read_text() if style.exists() else ""


def upkeep(package: str, scratch: Path) -> Upkeep:
    """What npm knows of the package now."""
    said = json.loads(_npm("view", package, "version", "license", "time", "--json", cwd=scratch))
    days = first_known(said["time"])
    recent = [version for version, day in days.items() if day >= COUNTED_SINCE]
    return Upkeep(said["version"], said["license"], days[said["version"]], len(recent))


def first_known(times: Mapping[str, str]) -> dict[str, str]:
    """The day on which each release was out at the latest: it came before every later release of its major version,
    so a day that a mirror states too late is corrected by theirs. Trial versions do not count."""
    releases = sorted((tuple(map(int, version.split("."))), version) for version in times if _is_release(version))
    days: dict[str, str] = {}
    earliest: dict[int, str] = {}
    for numbers, version in reversed(releases):
        day = min(times[version][:10], earliest.get(numbers[0], "9999"))
        days[version] = earliest[numbers[0]] = day
    return days


def _is_release(version: str) -> bool:
    return re.fullmatch(r"\d+\.\d+\.\d+", version) is not None


def _npm(*words: str, cwd: Path) -> str:
    npm = shutil.which("npm")
    if npm is None:
        raise DamnatioError(
            "The libraries come from npm, which is not installed: install node and npm, then try again."
        )
    done = subprocess.run([npm, *words], cwd=cwd, check=False, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise DamnatioError(f"npm {words[0]} failed in {cwd} ({' '.join(last)}): is the npm registry reachable?")
    return done.stdout
