"""Several runs in one page: the rates of each, their means over seeds, and how they differ from the first.

Everything is read from the content of the runs' pages, so neither models, embeddings nor evaluations are needed.
"""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.metrics.intervals import difference_of_means, difference_of_shares
from damnatio.reporting.answers import QUESTIONS
from damnatio.reporting.looks import in_order
from damnatio.reporting.page.content import Json
from damnatio.reporting.page.writing import DATA
from damnatio.reporting.ranges import Rate
from damnatio.support.errors import DamnatioError
from damnatio.support.manifests import checked

LEFT_OUT = ("links", "forgotten", "losses")
"""what a page of several runs does not have of each model: its own page has it"""


@dataclass(frozen=True)
class Side:
    """One run, or the seeds of one experiment."""

    title: str
    contents: Sequence[Json]
    """of the page of each seed"""
    differs: str = ""
    """in what its protocol differs from that of the first side"""


def read_content(report: Path) -> Json:
    """The content of a report's page."""
    try:
        content = json.loads(checked(report / DATA).read_text(encoding="utf-8"))
    except DamnatioError:
        raise
    except FileNotFoundError:
        raise DamnatioError(
            f"{report} has no {DATA}: it was made by an earlier damnatio. Make it again: damnatio report RECIPE --run "
            f"{report.parent}"
        ) from None
    except (OSError, ValueError) as error:
        raise DamnatioError(f"{report / DATA} cannot be read ({error}): make the report again.") from None
    if not isinstance(content, dict) or not isinstance(content.get("panels"), list) or not content["panels"]:
        raise DamnatioError(f"{report / DATA} is no content of a page: make the report again.")
    if content.get("questions", QUESTIONS) != QUESTIONS:
        raise DamnatioError(
            f"{report / DATA} was made by another damnatio, with other questions: make the report again."
        )
    return content


def panels_of(sides: Sequence[Side]) -> list[Json]:
    """The panels of every run, named by it."""
    panels = []
    for side in sides:
        for number, content in enumerate(side.contents):
            seed = f", seed {number + 1} of {len(side.contents)}" if len(side.contents) > 1 else ""
            for panel in content["panels"]:
                several = f" · {panel['scale']}" if len(content["panels"]) > 1 else ""
                models = {name: _lighter(model) for name, model in panel["models"].items()}
                panels.append({**panel, "title": f"{side.title}{seed}{several}", "models": models})
    return panels


def _lighter(model: Json) -> Json:
    return {**model, **{name: type(model[name])() for name in LEFT_OUT if name in model}}


def titles_of(sides: Sequence[Side]) -> dict[str, str]:
    """The heading of every variant of any run, in the order of the tables."""
    known: Json = {}
    for side in sides:
        for content in side.contents:
            known |= content["variants"]
    return {name: known[name]["title"] for name in in_order(list(known))}


def compared(sides: Sequence[Side]) -> Json:
    """By scale, variant and column, at each target that all runs have: the rate of each side and its difference from
    the first, with a 95 % interval; null where a side lacks it."""
    contents = [content for side in sides for content in side.contents]
    scales = _common([[panel["scale"] for panel in content["panels"]] for content in contents])
    every = [panel for content in contents for panel in content["panels"]]
    targets = _common([panel["targets"] for panel in every])
    names = in_order(list(dict.fromkeys(name for panel in every for name in panel["models"])))
    columns = list(dict.fromkeys(key for panel in every for key in panel["columns"]))
    found: Json = {}
    for scale in scales:
        panels = [[_panel(content, scale) for content in side.contents] for side in sides]
        found[scale] = {
            name: {key: [_row(panels, name, key, target) for target in targets] for key in columns} for name in names
        }
    return {
        "sides": [{"title": side.title, "seeds": len(side.contents), "differs": side.differs} for side in sides],
        "targets": targets,
        "columns": columns,
        "scales": found,
    }


def _common(lists: Sequence[Sequence[Any]]) -> list[Any]:
    """What all have, in the order of the first."""
    return [value for value in lists[0] if all(value in other for other in lists[1:])]


def _panel(content: Json, scale: str) -> Json:
    found: Json = next(panel for panel in content["panels"] if panel["scale"] == scale)
    return found


def _row(panels: Sequence[Sequence[Json]], name: str, key: str, target: float) -> list[list[float | None] | None]:
    """Of each side the mean, the spread over seeds (null of one), and the difference from the first with its ends."""
    sides = [[rate_at(panel, name, key, target) for panel in seeds] for seeds in panels]
    first = sides[0]
    return [_cell(first, side, own=number == 0) for number, side in enumerate(sides)]


def rate_at(panel: Json, name: str, key: str, target: float) -> Rate | None:
    """A rate of a panel; None if the panel has none there."""
    rates = panel["models"].get(name, {}).get("rates", {}).get(key)
    if rates is None or target not in panel["targets"]:
        return None
    place = panel["targets"].index(target)
    accepted, low, high = rates["accepted"][place], rates["low"][place], rates["high"][place]
    if accepted is None or not rates["count"]:
        return None
    return Rate(accepted, rates["count"], math.nan if low is None else low, math.nan if high is None else high)


def _cell(first: Sequence[Rate | None], side: Sequence[Rate | None], *, own: bool) -> list[float | None] | None:
    known = [rate for rate in side if rate is not None]
    if len(known) < len(side):
        return None
    mean = statistics.fmean(rate.value for rate in known)
    spread = statistics.stdev(rate.value for rate in known) if len(known) > 1 else None
    before = [rate for rate in first if rate is not None]
    if own or len(before) < len(first):
        return [mean, spread]
    return [mean, spread, *_difference(before, known)]


def _difference(before: Sequence[Rate], after: Sequence[Rate]) -> tuple[float | None, ...]:
    if len(before) > 1 and len(after) > 1:
        found = difference_of_means([rate.value for rate in before], [rate.value for rate in after])
    elif len(before) == len(after) == 1:
        one, other = before[0], after[0]
        found = difference_of_shares((one.value, one.low, one.high), (other.value, other.low, other.high))
    else:  # seeds on one side only: how much the other would spread is not known
        means = [statistics.fmean(rate.value for rate in rates) for rates in (before, after)]
        found = means[1] - means[0], math.nan, math.nan
    return tuple(None if math.isnan(value) else round(value, 6) for value in found)


def lines_of(content: Json, titles: Mapping[str, str], target: float) -> list[str]:
    """The comparison for a terminal: at one target, the rates that matter most."""
    wanted = {"TMR Fev-Fev": "two new photographs link", "TMR T": "strangers recognised"}
    place = content["targets"].index(target)
    names = [side["title"] for side in content["sides"]]
    lines = [f"At a false match rate of {target:g}:"]
    for scale, models in content["scales"].items():
        for key, words in wanted.items():
            lines.append(f"  {words} ({scale})")
            for name, columns in models.items():
                cells = columns.get(key, [[None] * len(names)] * (place + 1))[place]
                if any(cells):
                    said = ", ".join(f"{side} {_said(cell)}" for side, cell in zip(names, cells, strict=True))
                    lines.append(f"    {titles[name] if name != ORIGINAL else 'f*':<6} {said}")
    return lines


def _said(cell: list[float | None] | None) -> str:
    if not cell or cell[0] is None:
        return "–"
    spread = f" ± {cell[1]:.3f}" if cell[1] is not None else ""
    ends = cell[2:]
    difference = "" if not ends or ends[0] is None else f" ({ends[0]:+.3f}"
    if difference:
        difference += ")" if ends[1] is None or ends[2] is None else f", {ends[1]:+.3f} to {ends[2]:+.3f})"
    return f"{cell[0]:.3f}{spread}{difference}"
