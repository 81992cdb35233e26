"""The content of a page, made by hand: few targets, few columns, numbers that a test chooses."""

from collections.abc import Mapping, Sequence
from typing import Any

from damnatio.metrics.intervals import wilson
from damnatio.reporting.answers import MARKS, MET, QUESTIONS
from damnatio.reporting.page.writing import Page, content_of

TARGETS = [0.001, 0.01]
Json = dict[str, Any]
Counts = Mapping[str, tuple[int, Sequence[int]]]
"""by column: how many comparisons, and how many of them each target accepts"""


def a_model(counts: Counts, *, answered: bool, behind: bool = False, targets: Sequence[float] = TARGETS) -> Json:
    rates = {
        key: {
            "count": count,
            "accepted": list(accepted),
            "low": [round(wilson(each, count)[0], 5) for each in accepted],
            "high": [round(wilson(each, count)[1], 5) for each in accepted],
        }
        for key, (count, accepted) in counts.items()
    }
    thresholds = {"1:1 D": {"threshold": [0.5] * len(targets), "errors": [40] * len(targets)}}
    empty: Json = {"distances": {}, "scores": {}, "plane": [], "links": {"Ftr-Ftr": [["p", "a", "b", 0.5]]}}
    model = {"rates": rates, "thresholds": thresholds, **empty, "forgotten": [], "behind": behind}
    if answered:
        model |= {
            "answers": [[[MARKS.index(MET), f"Text {q}."] for q in range(len(QUESTIONS))]] * len(targets),
            "losses": {},
        }
    return model


def a_panel(scale: str, models: Mapping[str, Counts], targets: Sequence[float] = TARGETS) -> Json:
    altered = [name for name in models if name != "original"]
    chosen = [altered[0], f"{altered[0]} meets all."] if altered else None
    return {
        "title": scale,
        "scale": scale,
        "targets": list(targets),
        "points": [targets[-1]],
        "first": len(targets) - 1,
        "columns": list(dict.fromkeys(key for counts in models.values() for key in counts)),
        "chance": {},
        "recommended": [chosen] * len(targets),
        "images": [],
        "models": {
            n: a_model(counts, answered=n in altered, behind=n == "GS", targets=targets) for n, counts in models.items()
        },
    }


def a_content(panels: Sequence[Json], title: str = "run") -> Json:
    names = dict.fromkeys(name for panel in panels for name in panel["models"])
    titles = {name: "f*" if name == "original" else name for name in names}
    return content_of(Page(title, "A lead.", panels, titles, facts=()))
