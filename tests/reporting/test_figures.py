"""Every figure can be read in a column of the paper, shows what its legend says, and is the same file each time."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from damnatio.embedding import Example
from damnatio.evaluation.protocol import AVERAGED
from damnatio.metrics.distributions import EDGES
from damnatio.reporting import canvas, figures, joined_figures, mechanism, trade_off, weak_strong
from damnatio.reporting.canvas import SMALL, STYLE, WIDTH
from damnatio.reporting.looks import METHODS, OTHERS, in_order, looks_of
from damnatio.reporting.panels import Panel
from damnatio.support.tables import Table
from tests.reporting.test_trade_off import panel

ALL = [*METHODS, "HD-distil", "my variant"]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that were saved, and no file."""
    saved: list[Figure] = []
    for module in (figures, joined_figures, mechanism, trade_off, weak_strong):
        monkeypatch.setattr(module, "save", lambda figure, *_: saved.append(figure))
    return saved


def model(variant: str, scale: str = "S1", curves: bool = True) -> figures.Drawn:
    """A model with scores drawn from normal distributions and rates that rise."""
    rng = np.random.default_rng(len(variant))
    groups = {"mated": 0.6, "non-mated": 0.0}
    names = {"mated": list(figures.COLUMNS), "non-mated": list(figures.COLUMNS.values())}
    sketches = {
        f"{kind}/{group}": np.histogram(rng.normal(middle, 0.15, 500).clip(-1, 1), EDGES)[0].astype(np.int64)
        for kind, middle in groups.items()
        for group in names[kind]
    }
    targets = np.logspace(-6, -0.1, 30)
    panels = [(*place, figures.RATES[place[0]][1]) for place in figures.PANELS]
    rows = [(*panel, target, target**0.1) for panel in panels for target in targets if curves]
    table = Table.of_rows(("task", "group", "metric", "target", "rate"), rows)
    return figures.Drawn(scale, variant, "f*" if variant == "original" else variant, sketches, table, 0.4)


def example(kind: str) -> Example:
    return Example(kind, np.zeros((2, 32, 32, 3), np.uint8), 217.0, 0.76)


def panels() -> list[Panel]:
    return [panel(title) for title in ("mobilefacenet S1", "iresnet50 S1", "iresnet50 S2")]


EVERY: dict[str, Callable[[Path], None]] = {
    "distributions": lambda folder: figures.distributions([model(variant) for variant in ALL], folder, ""),
    "det": lambda folder: figures.det([model(variant) for variant in ALL], looks_of(ALL), folder, ""),
    "weak-strong": lambda folder: weak_strong.weak_and_strong(
        [model(variant) for variant in ALL], weak_strong.Chosen("PD", "OF", False), folder, ""
    ),
    "captures": lambda folder: figures.capture_pairs([example(k) for k in ("within", "across") * 4], 30.0, folder),
    "mechanism": lambda folder: mechanism.mechanisms(["CURE", "HD", "PD"], folder),
    "one mechanism": lambda folder: mechanism.mechanisms(["HD"], folder),
    "trade-off": lambda folder: trade_off.trade_off(panels(), folder),
    "rates-by-group": lambda folder: joined_figures.rates_by_group(panels(), 0.01, folder),
}


def texts_of(figure: Figure) -> list[tuple[str, float, Bbox]]:
    """Every text that is drawn: what it says, the size of its letters in points, and the pixels it takes."""
    found: list[tuple[str, float, Bbox]] = []
    whole = Text.draw

    def note(self: Text, renderer: object) -> None:
        if self.get_visible() and self.get_text().strip():
            found.append((self.get_text(), float(self.get_fontsize()), self.get_window_extent()))
        whole(self, renderer)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch, mpl.rc_context(STYLE):
        patch.setattr(Text, "draw", note)
        FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
        found.clear()  # the first drawing moves the panels
        figure.canvas.draw()
    return found


def overlap(one: Bbox, two: Bbox) -> bool:
    """Whether two boxes share more than the rim of a letter."""
    common = Bbox.intersection(one, two)
    return common is not None and min(common.width, common.height) > 1.0


@pytest.mark.cli
@pytest.mark.parametrize("name", EVERY)
def test_every_figure_is_read_in_a_column(name: str, tmp_path: Path, drawn: list[Figure]) -> None:
    EVERY[name](tmp_path)
    (figure,) = drawn
    assert figure.get_figwidth() == WIDTH == 3.5
    texts = texts_of(figure)
    assert texts
    for place, (text, size, box) in enumerate(texts):
        assert size >= SMALL == 6.5, text
        assert "$" not in text, f"{text}: a subscript is smaller than the letters"
        assert Bbox.intersection(box.padded(-1), figure.bbox).size == pytest.approx(box.padded(-1).size), text  # type: ignore[union-attr]
        for other, _, its in texts[place + 1 :]:
            assert not overlap(box, its), f"{text!r} lies on {other!r}"
    for legend in figure.legends:
        assert not any(overlap(legend.get_window_extent(), axis.get_window_extent()) for axis in figure.axes)
        assert legend.get_window_extent().width <= figure.bbox.width


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_the_legend_of_rates_has_the_models_that_are_drawn_in_their_order(drawn: list[Figure], tmp_path: Path) -> None:
    models = [model(variant) for variant in ("original", "HD", "OF")] + [model("GS", curves=False)]
    figures.det(models, looks_of(["original", "HD", "OF", "GS"]), tmp_path, "det")
    assert legend_of(drawn[0]) == ["f*", "HD", "OF"]
    for axis in drawn[0].axes:
        assert [line.get_label() for line in axis.lines] == ["f*", "HD", "OF"]
        assert [line.get_color() for line in axis.lines] == [METHODS[v].colour for v in ("original", "HD", "OF")]
        assert [line.get_marker() for line in axis.lines] == [METHODS[v].marker for v in ("original", "HD", "OF")]


def test_markers_of_equal_curves_do_not_lie_on_each_other(drawn: list[Figure], tmp_path: Path) -> None:
    figures.det([model(variant) for variant in METHODS], looks_of(list(METHODS)), tmp_path, "det")
    places = [
        range(len(np.asarray(line.get_xdata())))[start::step]
        for line in drawn[0].axes[0].lines
        for start, step in [every(line)]
    ]
    assert all(places)
    assert len({place[0] for place in places}) == 10  # of a curve of 30 points, a third for 12 methods


def every(line: mpl.lines.Line2D) -> tuple[int, int]:
    start, step = line.get_markevery()  # type: ignore[misc]
    return int(start), int(step)


def test_legends_of_distributions_name_what_is_drawn_and_no_more(drawn: list[Figure], tmp_path: Path) -> None:
    threshold = "threshold τ at FMR 0.001"
    whole = model("original")
    figures.distributions([whole], tmp_path, "whole")
    assert legend_of(drawn[0]) == ["non-mated", "mated, others", threshold, "mated, forget"]
    nobody = {name: np.zeros_like(counts) if "F" in name else counts for name, counts in whole.sketches.items()}
    bare = figures.Drawn("S1", "original", "f*", nobody, whole.curves, 0.4)
    figures.distributions([bare], tmp_path, "bare")
    assert legend_of(drawn[1]) == ["non-mated", "mated, others", threshold]


def test_the_legend_of_costs_has_the_methods_that_are_drawn(drawn: list[Figure], tmp_path: Path) -> None:
    trade_off.trade_off([panel()], tmp_path)
    methods = ["PD", "HD", "CP", "EC", "OF"]
    assert legend_of(drawn[0]) == [*methods, "on the front", "dominated", "under f*"]
    assert {line.get_gid() for axis in drawn[0].axes for line in axis.lines if line.get_gid()} == set(methods)
    alone = panel()
    trade_off.trade_off([type(alone)("S1", alone.results, "S1", ["original", "OF", "GS"])], tmp_path)
    assert legend_of(drawn[1]) == ["OF", "on the front", "under f*"]  # GS was not measured, and nothing is dominated


def test_joined_rates_show_experiments_by_marker_and_methods_in_order(drawn: list[Figure], tmp_path: Path) -> None:
    joined_figures.rates_by_group([panel("a"), panel("b")], 0.01, tmp_path)
    assert legend_of(drawn[0]) == ["a", "b"]
    names = [label.get_text() for label in drawn[0].axes[-1].get_xticklabels()]
    assert names == ["f*", "PD", "HD", "CP", "EC", "OF"]
    assert names[1:] == in_order(names[1:])
    tasks = [axis.get_title().split()[0] for axis in drawn[0].axes]
    assert tasks == sorted(tasks)
    assert {line.get_marker() for line in drawn[0].axes[0].lines} - {"None"} == {OTHERS[0].marker, OTHERS[1].marker}


def test_density_is_drawn_where_it_is(drawn: list[Figure], tmp_path: Path) -> None:
    """Cut where nothing is, closed at the axis, also where scores reach 1."""
    figure = Figure()
    axis = figure.subplots()
    counts = np.zeros(len(EDGES) - 1, np.int64)
    counts[-20:] = 10
    figures.draw_density(axis, counts, "high", "#000000")
    (line,), (filled,) = axis.lines, axis.patches
    x, y = (np.asarray(values, float) for values in line.get_data())
    centres, density = figures.density_of(counts)
    shown = np.isin(centres, x)
    assert np.allclose(density[shown], y)
    assert density[~shown].max() <= 1e-3 * density.max()
    corners = filled.get_xy()  # type: ignore[attr-defined]
    assert corners[0].tolist() == [x[0], 0]
    assert corners[len(x) + 1].tolist() == [x[-1], 0]
    figures.draw_density(axis, np.zeros_like(counts), "nothing", "#000000")
    assert len(axis.lines) == 1


FORMATS: dict[str, Callable[[bytes], bool]] = {
    "png": lambda data: data.startswith(b"\x89PNG"),
    "svg": lambda data: b"<svg" in data and b"<dc:date>" not in data and b"<text" not in data,
    "pdf": lambda data: data.startswith(b"%PDF") and b"CreationDate" not in data and b"/CIDFontType2" in data,
}


def saved(folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    with mpl.rc_context(STYLE):
        figure = canvas.column(1.0)
        axis = figure.subplots()
        axis.plot([0, 1], [0, 1], label="τ ‡ ←")
        canvas.legend(figure, canvas.drawn_in([axis]))
        canvas.save(figure, folder, "figure")
    return {file.suffix[1:]: file.read_bytes() for file in folder.iterdir()}


def test_files_are_of_all_formats_and_equal_each_time(tmp_path: Path) -> None:
    first, second = saved(tmp_path / "a"), saved(tmp_path / "b")
    assert first == second
    assert set(first) == set(FORMATS)
    for ending, holds in FORMATS.items():
        assert holds(first[ending]), ending
    assert b"/Type3" not in first["pdf"]  # publishers refuse such fonts


@pytest.mark.parametrize(("names", "columns"), [(["a"] * 1, 1), ([f"name {i}" for i in range(12)], 4), (["x" * 80], 1)])
def test_a_legend_has_as_many_columns_as_fit(names: Sequence[str], columns: int) -> None:
    with mpl.rc_context(STYLE):
        figure = canvas.column(2.0)
        axis = figure.subplots()
        for name in names:
            axis.plot([0, 1], label=name)
        canvas.legend(figure, canvas.drawn_in([axis]))
    assert figure.legends[0]._ncols == columns  # type: ignore[attr-defined]
    assert math.isclose(figure.get_figwidth(), WIDTH)


def test_groups_of_the_figures_are_those_of_the_evaluation() -> None:
    assert AVERAGED in figures.COLUMNS
    assert len(set(figures.PANELS)) == len(figures.PANELS) == 10
