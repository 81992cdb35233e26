"""The joined report, from results made by hand: its tables against a naive computation from its own results.csv."""

import csv
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import pytest

from damnatio.recipe.files import load
from damnatio.reporting.cost import Cost, write
from damnatio.reporting.grids import DOUBT, FEW
from damnatio.reporting.joined import Run, grids_of, panels_of, terminal_tables, write_joined
from damnatio.reporting.lookup import Averaged, Quantity, Results
from damnatio.reporting.report import _COLUMNS, _WARNED, RESULTS, WARNINGS
from damnatio.support.tables import Table

METHODS = ["PD", "OF"]
TITLES = {"original": "f*", "PD": "PD", "OF": "OF"}
RATES: dict[str, dict[str, tuple[str, ...]]] = {
    "1:1": {"TMR": ("R", "T", "Ftr-Ftr", "Ftr-Fev", "Fev-Fev"), "FMR": ("FtrxFtr",)},
    "1:N": {"TPIR": ("R", "T", "Ftr", "Fev")},
}
DISTANCES = [("Ftr-Ftr", "W1"), ("Fev-Fev", "W1"), ("R", "deformation"), ("RxR", "deformation"), ("R", "footprint")]
TEXT = [("R", "std"), ("Ftr-Fev", "above_0.001"), ("T", "TMR_eer"), ("Fev-Fev", "TMR_eer")]
POINTS = (1e-4, 1e-2)


def a_run(folder: Path, experiment: str, backbone: str, seed: int, scales: Sequence[str] = ("S1",)) -> Run:
    """The report of a run with numbers that no two cells share."""
    folder.mkdir(parents=True)
    wanted = ", ".join(scales)
    words = [f"model.backbone={backbone}", f"seed={seed}", f"forget.scales=[{wanted}]"]
    recipe = load("demo", [*words, "forget.methods=[PD, OF]"])
    rows, number = [], sum(map(ord, experiment)) + 17 * seed
    for scale in scales:
        for method in ("original", *METHODS):
            quantities: list[tuple[str, str, float, str]] = [
                (task, group, point, metric)
                for task, metrics in RATES.items()
                for metric, groups in metrics.items()
                for group in groups
                for point in POINTS
            ]
            quantities += [("1:1", group, math.nan, metric) for group, metric in (*DISTANCES, *TEXT)]
            for task, group, point, metric in quantities:
                number = (number * 48271 + 11) % 2147483647
                value, count = number / 2147483647, 100 + number % 900
                front = (backbone, scale, method, task, group, point, metric, value, count)
                rows.append((*front, 7, math.nan, math.nan, math.nan, math.nan))
    Table.of_rows(_COLUMNS, rows).write_csv(folder / RESULTS)
    doubt = [(backbone, "S1", "PD", "1:1", "D", 1e-4, "rests on few")] if seed == 2 else []
    Table.of_rows(_WARNED, doubt).write_csv(folder / WARNINGS)
    spent = {(scale, method): Cost(seed + number / 100) for scale in scales for number, method in enumerate(TITLES)}
    write(spent, folder)
    (folder / "index.html").write_text(f"<p>{experiment} {seed}</p>")
    return Run(experiment, recipe, folder)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder = tmp_path_factory.mktemp("reports")
    backbones = {"iresnet": "iresnet-tiny", "vit": "vit-tiny"}
    return [a_run(folder / f"{name}{seed}", name, backbones[name], seed) for name in backbones for seed in (1, 2, 5)]


@pytest.fixture(scope="module")
def joined(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("joined")
    write_joined("both", runs, folder)
    return folder


def naive(joined: Path, experiment: str, method: str, task: str, group: str, metric: str, point: str) -> list[float]:
    """The values of all seeds, by a loop over the lines of results.csv."""
    with (joined / RESULTS).open(newline="") as file:
        wanted = (experiment, method, task, group, metric, point)
        return [
            float(row["value"])
            for row in csv.DictReader(file)
            if tuple(row[k] for k in ("experiment", "method", "task", "group", "metric", "operating_point")) == wanted
        ]


def table(path: Path) -> dict[str, dict[str, str]]:
    """A table of one row per method, by the first cell of each row."""
    with path.open(newline="") as file:
        return {row["Method"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize(
    ("file", "task", "metric"), [("verification", "1:1", "TMR"), ("identification", "1:N", "TPIR")]
)
def test_table_5_is_the_mean_and_the_deviation_over_seeds(joined: Path, file: str, task: str, metric: str) -> None:
    shown = table(joined / f"{file}.csv")
    assert list(shown) == ["f*", "PD", "OF"]
    for experiment in ("iresnet", "vit"):
        for group in RATES[task][metric]:
            arrow = "↑" if group in ("R", "T") else "↓"
            for method, title in TITLES.items():
                values = naive(joined, experiment, method, task, group, metric, "0.0001")
                assert len(values) == 3
                column = f"{experiment} {group} {arrow}"
                assert float(shown[title][column]) == pytest.approx(sum(values) / 3)
                mean = sum(values) / 3
                deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / 2)
                assert float(shown[title][f"{column} ±"]) == pytest.approx(deviation)


def test_distances_are_the_mean_and_the_deviation_over_seeds(joined: Path) -> None:
    shown = table(joined / "distances.csv")
    for experiment in ("iresnet", "vit"):
        for (group, metric), title in zip(
            DISTANCES, ("W1 Ftr-Ftr", "W1 Fev-Fev", "mated", "non-mated", "footprint"), strict=True
        ):
            for method, row in TITLES.items():
                values = naive(joined, experiment, method, "1:1", group, metric, "")
                assert float(shown[row][f"{experiment} {title}"]) == pytest.approx(statistics.fmean(values))
                assert float(shown[row][f"{experiment} {title} ±"]) == pytest.approx(statistics.stdev(values))


def test_numbers_of_the_text_and_hours_are_means_over_seeds(joined: Path) -> None:
    shown, hours = table(joined / "text.csv"), table(joined / "cost.csv")
    for experiment in ("iresnet", "vit"):
        for number, (method, row) in enumerate(TITLES.items()):
            for (group, metric), title in zip(TEXT, ("std R", "single ↓", "T ↑", "Fev-Fev ↓"), strict=True):
                values = naive(joined, experiment, method, "1:1", group, metric, "")
                assert float(shown[row][f"{experiment} {title}"]) == pytest.approx(statistics.fmean(values))
            spent = [seed + number / 100 for seed in (1, 2, 5)]
            assert float(hours[row][f"{experiment} hours"]) == pytest.approx(statistics.fmean(spent))
            assert float(hours[row][f"{experiment} hours ±"]) == pytest.approx(statistics.stdev(spent))


def test_rates_have_a_panel_per_experiment_and_add_up_the_counts(joined: Path) -> None:
    with (joined / "rates.csv").open(newline="") as file:
        rows = {(row["section"], row[""]): row for row in csv.DictReader(file)}
    row = rows["Verification (TMR@FMR)", "0.01  Ftr-Fev ↓"]
    values = naive(joined, "vit", "OF", "1:1", "Ftr-Fev", "TMR", "0.01")
    assert float(row["vit OF"]) == pytest.approx(statistics.fmean(values))
    assert float(row["vit OF ±"]) == pytest.approx(statistics.stdev(values))
    with (joined / RESULTS).open(newline="") as file:
        counts = [
            int(line["count"])
            for line in csv.DictReader(file)
            if (line["experiment"], line["method"], line["group"], line["metric"], line["operating_point"])
            == ("vit", "original", "Ftr-Fev", "TMR", "0.01")
        ]
    assert int(row["vit n"]) == sum(counts)


def test_best_means_are_bold_in_each_column(joined: Path) -> None:
    line = next(line for line in (joined / "verification.md").read_text().splitlines() if line.startswith("| PD"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    expected = []
    for experiment in ("iresnet", "vit"):
        for group in RATES["1:1"]["TMR"]:
            pd, of = (
                statistics.fmean(naive(joined, experiment, method, "1:1", group, "TMR", "0.0001")) for method in METHODS
            )
            expected.append(pd >= of - 0.002 if group in ("R", "T") else pd <= of + 0.002)
    assert [cell.startswith("**") for cell in cells[1:]] == expected
    assert all(" ± " in cell for cell in cells[1:])


def test_a_doubt_of_one_seed_is_a_doubt_of_the_mean(runs: list[Run]) -> None:
    panel = panels_of(runs)[0]
    assert DOUBT in panel.results.marks(Quantity("S1", "PD", "1:1", "T", "TMR", 1e-4))
    assert DOUBT not in panel.results.marks(Quantity("S1", "OF", "1:1", "T", "TMR", 1e-4))
    assert DOUBT not in panel.results.marks(Quantity("S1", "PD", "1:1", "T", "TMR", 1e-2))


def test_results_of_all_runs_stand_in_one_file(joined: Path, runs: list[Run]) -> None:
    with (joined / RESULTS).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:5] == ["experiment", "seed", "backbone", "scale", "method"]
    for run in runs:
        mine = [row for row in rows if (row["experiment"], row["seed"]) == (run.experiment, str(run.seed))]
        with (run.folder / RESULTS).open(newline="") as file:
            theirs = list(csv.DictReader(file))
        assert [{**row, "experiment": "", "seed": ""} for row in mine] == [
            {"experiment": "", "seed": "", **row} for row in theirs
        ]


def test_page_links_the_page_of_every_run_and_needs_nothing_from_outside(joined: Path, runs: list[Run]) -> None:
    page = (joined / "index.html").read_text()
    for run in runs:
        assert f'href="{run.page}"' in page
        assert (joined / run.page).read_text() == (run.folder / "index.html").read_text()
    assert "http" not in page.replace("http://www.w3.org", "")
    assert "<h1>Damnatio: both</h1>" in page
    assert "over the seeds 1, 2, 5" in page


def test_figures_are_written_for_people_and_for_the_page(joined: Path) -> None:
    for name in ("trade-off", "rates-by-group"):
        assert (joined / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (joined / f"{name}.svg").read_text()


def test_findings_are_judged_on_each_seed(joined: Path) -> None:
    text = (joined / "findings.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## Seed 1", "## Seed 2", "## Seed 5"]


def test_one_seed_has_neither_deviations_nor_a_word_of_them(runs: list[Run], tmp_path: Path) -> None:
    alone = [run for run in runs if run.seed == 1]
    for grid in grids_of(alone):
        assert "±" not in grid.markdown()
        assert "±" not in grid.csv()
    write_joined("one", alone, tmp_path)
    assert "±" not in (tmp_path / "index.html").read_text()
    assert not [line for line in (tmp_path / "findings.md").read_text().splitlines() if line.startswith("## ")]
    assert terminal_tables(alone, 120)


def test_titles_leave_out_what_all_panels_share(tmp_path: Path, runs: list[Run]) -> None:
    assert [panel.title for panel in panels_of(runs)] == ["iresnet", "vit"]
    alone = a_run(tmp_path / "a", "", "iresnet-tiny", 1, ("S1", "S2"))
    assert [panel.title for panel in panels_of([alone])] == ["S1", "S2"]
    by_scale = [a_run(tmp_path / scale, scale, "iresnet-tiny", 1, (scale,)) for scale in ("S1", "S2")]
    assert [panel.title for panel in panels_of(by_scale)] == ["S1", "S2"]
    other = a_run(tmp_path / "vit", "vit", "vit-tiny", 1, ("S1", "S2"))
    assert [panel.title for panel in panels_of([by_scale[0], other])] == ["S1", "vit S1", "vit S2"]


def test_number_that_one_seed_lacks_has_no_mean() -> None:
    names = ("scale", "method", "task", "group", "operating_point", "metric", "value", "count", "low", "high")
    nothing = Table.of_rows(_WARNED, [])
    tables = [
        [("S1", "PD", "1:1", "T", 0.01, "TMR", 0.5, 1000, math.nan, math.nan)],
        [
            ("S1", "PD", "1:1", "T", 0.01, "TMR", 0.7, 3000, math.nan, math.nan),
            ("S1", "PD", "1:1", "R", 0.01, "TMR", 0.9, 20, math.nan, math.nan),
        ],
    ]
    mean = Averaged([Results(Table.of_rows(names, rows), nothing, {"PD": "PD"}) for rows in tables])
    found = mean[Quantity("S1", "PD", "1:1", "T", "TMR", 0.01)]
    assert found.value == pytest.approx(0.6)
    assert found.count == 4000
    assert found.spread == pytest.approx(math.sqrt(0.02))
    assert math.isnan(mean[Quantity("S1", "PD", "1:1", "R", "TMR", 0.01)].value)
    assert FEW in mean.marks(Quantity("S1", "PD", "1:1", "R", "TMR", 0.01))


def test_methods_of_any_seed_have_a_row(tmp_path: Path) -> None:
    """A model that failed with one seed has no mean, and is shown without one."""
    first, second = (a_run(tmp_path / str(seed), "x", "iresnet-tiny", seed) for seed in (1, 2))
    without = first.recipe.model_copy(
        update={"forget": first.recipe.forget.model_copy(update={"methods": ["PD"]})},
    )
    grid = grids_of([Run("x", without, first.folder), second])[0]
    assert [row[0].text for row in grid.rows] == ["f*", "PD", "OF"]
