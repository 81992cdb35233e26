"""The figures of the studies, drawn from their tables."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from damnatio.reporting.looks import COLOURS, STYLE

from .tables import WORLDS

Rows = Sequence[Mapping[str, str]]
Line = tuple[str, str]
"""a column of the table and its name in the legend"""

FEW = 10
"""A rate of fewer bursts is not drawn."""
FORGOTTEN: list[Line] = [("caught", "new photographs caught"), ("ev-ev 0.01", "linked: new photographs")]
FORGOTTEN += [("averaged 0.01", "linked: averaged template")]


def draw(study: str, rows: Rows, folder: Path) -> None:
    """The figure of a study, if it has one."""
    if study in FIGURES:
        FIGURES[study](rows, folder)


def _worlds(rows: Rows) -> dict[str, Rows]:
    return {name: [row for row in rows if row["world"] == name] for name in dict.fromkeys(r["world"] for r in rows)}


def _panels(count: int, width: float = 4.2) -> tuple[Figure, list[Any]]:
    figure = Figure(figsize=(width * count, 3.1), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def _line(axis: Any, rows: Rows, across: str, column: str, label: str, colour: int, style: str = "-") -> None:
    points = [(float(row[across]), float(row[column])) for row in rows if row.get(column) and row.get(across)]
    axis.plot(*zip(*sorted(points), strict=True), style, color=COLOURS[colour], marker="o", ms=3, lw=1.2, label=label)


def _finish(axis: Any, world: str, across: str, **limits: Any) -> None:
    axis.set(title=WORLDS.get(world, world), xlabel=across, **limits)
    axis.grid(color="#dddddd", lw=0.4)


def _legend(figure: Figure, axis: Any, columns: int) -> None:
    """Below all panels, where it hides no line."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def _save(figure: Figure, folder: Path, name: str) -> None:
    figure.savefig(folder / f"{name}.png", dpi=170, metadata={"Software": None})


def _photographs(rows: Rows, folder: Path) -> None:
    with mpl.rc_context(STYLE):
        worlds = _worlds(rows)
        figure, axes = _panels(len(worlds))
        for axis, (world, here) in zip(axes, worlds.items(), strict=True):
            with_strangers = [row for row in here if row["at hand"] == "strangers"]
            _line(axis, with_strangers, "used", "expected", "caught, as the rule expects", 9, "--")
            for place, (column, label) in enumerate(FORGOTTEN):
                _line(axis, with_strangers, "used", column, label, place + 1)
            _line(axis, with_strangers, "used", "test 0.01", "test people recognised", 0)
            _finish(axis, world, "photographs of each person", xscale="log", ylim=(-0.02, 1.02))
            axis.set_xticks(*[[int(row["used"]) for row in with_strangers]] * 2)
            axis.minorticks_off()
        axes[0].set_ylabel("share, or TMR at FMR 0.01")
        _legend(figure, axes[0], 3)
        _save(figure, folder, "photographs")


def _shares(rows: Rows, folder: Path) -> None:
    with mpl.rc_context(STYLE):
        worlds = _worlds(rows)
        figure, axes = _panels(len(worlds))
        for axis, (world, here) in zip(axes, worlds.items(), strict=True):
            for model, style in (("f*", ":"), ("GS", "-"), ("HD", "--")):
                of_model = [row for row in here if row["model"] == model]
                if of_model:
                    _line(axis, of_model, "share", "test 0.01", f"{model}: test people recognised", 0, style)
                if of_model and model != "f*":
                    _line(axis, of_model, "share", "ev-ev 0.01", f"{model}: linked, new photographs", 2, style)
                    _line(axis, of_model, "share", "averaged 0.01", f"{model}: linked, averaged template", 3, style)
            _finish(axis, world, "share of the population forgotten", xscale="log", ylim=(-0.02, 1.02))
        axes[0].set_ylabel("TMR at FMR 0.01")
        _legend(figure, axes[0], 3)
        _save(figure, folder, "shares")


def _widths(rows: Rows, folder: Path) -> None:
    with mpl.rc_context(STYLE):
        worlds = _worlds(rows)
        figure = Figure(figsize=(8.4, 2.7 * len(worlds)), layout="constrained")
        axes = list(figure.subplots(len(worlds), 2, squeeze=False).flat)
        for place, (world, all_rows) in enumerate(worlds.items()):
            here = [row for row in all_rows if float(row["bound"]) > 0]
            for number, (column, label) in enumerate(FORGOTTEN):
                _line(axes[2 * place], here, "bound", column, label, number + 1)
            _line(axes[2 * place], here, "bound", "test 0.01", "test people recognised", 0)
            _finish(axes[2 * place], world, "bound on strangers caught", xscale="log", ylim=(-0.02, 1.02))
            right = axes[2 * place + 1]
            bounds = [float(row["bound"]) for row in here]
            right.plot(bounds, bounds, ":", color="black", lw=0.8, label="the bound")
            seen = [row for row in here if float(row["strangers caught, all draws"]) > 0]
            _line(right, seen, "bound", "strangers caught, all draws", "caught", 2)
            _finish(right, world, "bound on strangers caught", xscale="log", yscale="log", ylabel="share of strangers")
        for axis in axes[::2]:
            axis.set_ylabel("share, or TMR at FMR 0.01")
        axes[1].legend(loc="upper left")
        _legend(figure, axes[0], 4)
        _save(figure, folder, "widths")


def _scatter(rows: Rows, folder: Path) -> None:
    near = [("JPEG 75 0.01", "JPEG copies"), ("5 % brighter 0.01", "brighter copies")]
    near += [("shifted by 1 % 0.01", "shifted copies"), ("burst 0.01", "bursts")]
    with mpl.rc_context(STYLE):
        worlds = _worlds(rows)
        figure, axes = _panels(len(worlds))
        for axis, (world, all_rows) in zip(axes, worlds.items(), strict=True):
            here = [row for row in all_rows if row["waves"] == all_rows[0]["waves"]]
            for place, (column, label) in enumerate(near):
                if any(row.get(column) for row in here) and (label != "bursts" or int(here[0]["bursts"]) >= FEW):
                    _line(axis, here, "bandwidth", column, f"linked: {label}", place + 3)
            _line(axis, here, "bandwidth", "ev-ev 0.01", "linked: different photographs", 2)
            _finish(axis, world, "bandwidth w of the scatter", xscale="log", ylim=(-0.02, 1.02))
            axis.set_xticks(*[[round(float(row["bandwidth"])) for row in here]] * 2)
            axis.minorticks_off()
        axes[0].set_ylabel("TMR at FMR 0.01")
        _legend(figure, axes[0], 5)
        _save(figure, folder, "scatter")


FIGURES: dict[str, Callable[[Rows, Path], None]] = {
    "photographs": _photographs,
    "shares": _shares,
    "widths": _widths,
    "scatter": _scatter,
}
