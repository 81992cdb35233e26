"""What each model cost to train: hours of all devices that worked on it, from the manifests and logs of a run.

Hours depend on the machine, so they stand in files of their own, and no result or page depends on them.
"""

import json
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from damnatio.reporting.grids import Cell, Grid
from damnatio.reporting.panels import kinds_of
from damnatio.support.files import write_atomically
from damnatio.support.manifests import checked, manifest_of, section_of

LOG = "metrics.jsonl"
"""of a training, one line per so many steps"""
NAME, FILE = "cost", "cost.jsonl"


@dataclass(frozen=True)
class Cost:
    """`hours` is NaN for a model that came from elsewhere; `steps` is 0 for a model that needed none, or whose log is
    not at hand."""

    hours: float
    steps: int = 0
    device: str = ""


def of_training(folder: Path) -> Cost:
    """The cost of the model in a folder. The manifest has the seconds of the last call, with all preparation; the log
    has those of every step, also of steps before an interruption. The larger number is the nearer one."""
    manifest = manifest_of(folder)
    made, settings = section_of(manifest, "made"), section_of(manifest, "settings")
    device = str(made.get("device") or made.get("machine") or "")
    if manifest.get("stage") == "4-train" and "train" not in settings:
        return Cost(math.nan, 0, device)  # imported
    batch = section_of(settings, "forget" if "forget" in settings else "train").get("batch", 0)
    seconds, steps = _logged(folder / LOG, batch)
    seconds = max(seconds, float(made.get("seconds") or 0))
    return Cost(seconds * int(made.get("processes") or 1) / 3600, steps, device)


def _logged(log: Path, batch: int) -> tuple[float, int]:
    """The seconds that the steps of a log took, and their number."""
    if not log.exists():
        return 0.0, 0
    seconds, last = 0.0, 0
    for line in checked(log).read_text().splitlines():
        entry: dict[str, Any] = json.loads(line)
        seconds += (entry["step"] - last) * batch / max(entry["images_per_second"], 0.1)
        last = entry["step"]
    return seconds, last


def write(spent: Mapping[tuple[str, str], Cost], folder: Path) -> None:
    """Leave the costs, keyed by scale and variant, for the tables of joined reports."""
    lines = [{"scale": scale, "method": variant, **asdict(cost)} for (scale, variant), cost in spent.items()]
    write_atomically(folder / FILE, "".join(json.dumps(line) + "\n" for line in lines))


def read(folder: Path) -> dict[tuple[str, str], Cost]:
    """The costs that a report holds, by scale and variant; none if it is older than they are."""
    if not (folder / FILE).exists():
        return {}
    entries = [json.loads(line) for line in checked(folder / FILE).read_text().splitlines()]
    return {(e["scale"], e["method"]): Cost(e["hours"], e["steps"], e["device"]) for e in entries}


def table(
    panels: Mapping[str, Sequence[Mapping[str, Cost]]], titles: Mapping[str, str], maps: Collection[str] = ()
) -> Grid:
    """One row per method; hours and steps in each panel. A panel has the costs of each seed, by variant. `maps` are
    the variants behind a network that stays as it is, the last of the titles."""
    seeds = [costs for panel in panels.values() for costs in panel]
    variants = [variant for variant in titles if any(variant in costs for costs in seeds)]
    rows = [[Cell(titles[variant])] for variant in variants]
    for panel in panels.values():
        for row, variant in zip(rows, variants, strict=True):
            mine = [costs.get(variant, Cost(math.nan)) for costs in panel]
            hours = [cost.hours for cost in mine]
            spread = statistics.stdev(hours) if len(hours) > 1 and not any(map(math.isnan, hours)) else math.nan
            row += [Cell(statistics.fmean(hours), spread=spread, digits=4), Cell(max(cost.steps for cost in mine))]
    devices = dict.fromkeys(cost.device for costs in seeds for cost in costs.values() if cost.device)
    return Grid(
        name=NAME,
        caption="What the training of each model cost, in hours of one device",
        header=["Method", *["hours", "steps"] * len(panels)],
        rows=rows,
        spans=[("", 1), *[(title, 2) for title in panels]],
        breaks=kinds_of(variants, maps),
        notes=[
            "Hours on the clock, times the processes that trained together. Whatever else the machine did meanwhile "
            "counts too. A closed form takes no step. '-': the model was not trained here."
            + (f" Device: {', '.join(devices)}." if devices else "")
        ],
        row_variants=variants,
    )
