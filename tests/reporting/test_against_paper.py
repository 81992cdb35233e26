"""A run beside the paper: from the paper's own numbers, and from numbers that were changed on purpose."""

import csv
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from damnatio.reporting.against_paper import (
    ABSENT,
    AS_IN_THE_PAPER,
    NOISE,
    REVERSED,
    Comparison,
    compare,
    mean_of,
    spearman,
)
from damnatio.reporting.findings.evidence import Evidence
from damnatio.reporting.findings.judging import judged, papers_evidence
from damnatio.reporting.paper import facts
from damnatio.support.tables import Table

ROOT = Path(__file__).resolve().parents[2]

PAPER = facts.results()


def compared(table: Table = PAPER) -> Comparison:
    """A table of numbers as if a run had measured them."""
    names = dict.fromkeys(table["backbone"].tolist())
    evidence = {name: Evidence(table.where(table["backbone"] == name)) for name in names}
    return compare(evidence, {"": judged(list(evidence.values()))})


def renamed(table: Table, column: str, names: dict[str, str]) -> Table:
    return table.with_columns(**{column: [names.get(name, name) for name in table[column].tolist()]})


def test_every_difference_that_the_text_names_is_in_the_papers_numbers() -> None:
    """But for those that the paper shows in a figure and gives no number for."""
    found = compared().signs
    assert {sign.outcome for sign in found} == {AS_IN_THE_PAPER, ABSENT}
    in_words = {(s.difference.metric, s.difference.higher.scale) for s in found if s.outcome == ABSENT}
    assert in_words == {("above_0.001", "S1"), ("regained", "S1"), ("TMR_eer", "S2"), ("W1", "S2")}


def test_paper_beside_itself_is_the_same_in_every_cell() -> None:
    found = compared()
    for cell in found.cells:
        if not math.isnan(cell.paper) and cell.row.metric != "TMR_eer_loss":
            assert cell.ours.value == cell.paper
    known = [rank for _, rank in found.correlations().values() if not math.isnan(rank)]
    assert len(known) > 60
    assert known == pytest.approx([1.0] * len(known))
    assert {(cell.row.title, cell.row.scale) for cell in found.cells} == {
        ("iresnet34", "S1"),
        ("iresnet34", "S2"),
        ("vit-s", "S1"),
        ("vit-b", "S1"),
    }


def test_reversed_numbers_reverse_signs_and_ranks() -> None:
    table = PAPER.where(PAPER["backbone"] == "iresnet34")
    rates = np.isin(table["metric"], ["TMR", "FMR", "TPIR"])
    found = compared(table.with_columns(value=np.where(rates, 1 - table["value"], table["value"])))
    for sign in found.signs:
        if sign.difference.metric in ("TMR", "FMR", "TPIR") and sign.outcome != ABSENT:
            assert sign.outcome == REVERSED
    for row, (_, rank) in found.correlations().items():
        if row.metric == "TPIR":
            assert rank == pytest.approx(-1.0)


def test_wide_intervals_leave_differences_in_the_noise() -> None:
    table = PAPER.where(PAPER["metric"] == "TMR")
    found = compared(table.with_columns(low=table["value"] * 0, high=table["value"] * 0 + 1))
    assert {sign.outcome for sign in found.signs if sign.difference.metric == "TMR"} == {NOISE}


def test_other_backbones_and_scales_are_compared_by_type_and_order() -> None:
    names = {"iresnet34": "iresnet-small", "vit-b": "vit-tiny"}
    table = renamed(PAPER.where(PAPER["backbone"] != "vit-s"), "backbone", names)
    found = compared(renamed(table, "scale", {"S1": "few", "S2": "many"}))
    beside = {(cell.row.title, cell.row.scale, cell.row.backbone) for cell in found.cells}
    assert beside == {
        ("iresnet-small", "few", "iresnet34"),
        ("iresnet-small", "many", "iresnet34"),
        ("vit-tiny", "few", "vit-s"),
    }
    same = [cell for cell in found.cells if cell.row.scale == "many" and not math.isnan(cell.paper)]
    assert all(cell.ours.missing or cell.ours.value == cell.paper for cell in same)
    across = [sign for sign in found.signs if sign.title == "iresnet-small, vit-tiny"]
    assert across, "a transformer stands for ViT-B where there is none of its name"
    assert {sign.outcome for sign in across} == {AS_IN_THE_PAPER}


def test_larger_scale_alone_is_compared_with_the_papers() -> None:
    found = compared(PAPER.where(PAPER["scale"] == "S2"))
    known = [cell for cell in found.cells if not (cell.ours.missing or math.isnan(cell.paper))]
    assert {cell.row.scale for cell in known} == {"S2"}
    assert all(cell.ours.value == cell.paper for cell in known)


def test_difference_is_looked_up_where_the_run_can_resolve_it() -> None:
    """Without 1e-4, what the text says of it is looked up at 1e-2; a cell of 1e-4 stays empty."""
    found = compared(PAPER.where(PAPER["operating_point"] != 1e-4))
    points = {s.point for s in found.signs if s.difference.metric == "TMR" and s.outcome != ABSENT}
    assert points == {1e-2}
    assert all(cell.ours.missing for cell in found.cells if cell.row.point == 1e-4)


def naive_spearman(first: list[float], second: list[float]) -> float:
    """One minus the normalised squared differences of ranks; for values without ties."""
    ranks = [[sorted(values).index(value) for value in values] for values in (first, second)]
    n, squares = len(first), [float(a - b) ** 2 for a, b in zip(*ranks, strict=True)]
    return 1 - 6 * math.fsum(squares) / (n * (n * n - 1))


def test_rank_correlation() -> None:
    for order in itertools.permutations([0.1, 0.2, 0.3, 0.4]):
        assert spearman([0.1, 0.2, 0.3, 0.4], order) == pytest.approx(naive_spearman([0.1, 0.2, 0.3, 0.4], list(order)))
    assert spearman([0.1, 0.1004, 0.3], [0.5, 0.5, 0.9]) == pytest.approx(1.0), "equal to three decimals"
    assert spearman([1, 2, 2, 3], [1, 2, 3, 3]) == pytest.approx(3.75 / 4.5), "ranks 1, 2.5, 2.5, 4 and 1, 2, 3.5, 3.5"
    assert spearman([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(0.8), "1 - 6 (1 + 1) / (4 x 15)"
    assert spearman([0.1, 0.1004, 0.3], [0.5, 0.4, 0.9], decimals=5) == pytest.approx(0.5), "not equal to five"
    assert math.isnan(spearman([0.1, 0.2], [0.1, 0.2]))
    assert math.isnan(spearman([0.1, 0.1, 0.1], [0.1, 0.2, 0.3]))


def test_means_over_seeds() -> None:
    first = PAPER.where(PAPER["backbone"] == "vit-b")
    second = first.where(first["method"] != "CP").with_columns(value=first["value"][first["method"] != "CP"] + 0.1)
    mean = mean_of([first, second])
    assert set(mean["method"]) == set(first["method"]) - {"CP"}
    assert mean["value"] == pytest.approx(first["value"][first["method"] != "CP"] + 0.05)
    assert mean_of([first]) is first


def test_written_for_people_and_for_programs(tmp_path: Path) -> None:
    found = compared()
    found.write(tmp_path)
    text = (tmp_path / "against-paper.md").read_text()
    assert "| 8. No method is best on every requirement" in text
    assert "0.480 (0.480)" in text
    assert "(0.087 to 0.095)" in text
    assert "(≥ 0.339)" in text
    tables = {}
    for name in ("against-paper", "against-paper-rows", "against-paper-signs"):
        with (tmp_path / f"{name}.csv").open(newline="") as file:
            tables[name] = list(csv.DictReader(file))
    assert len(tables["against-paper"]) == len(found.cells)
    assert len(tables["against-paper-signs"]) == len(facts.differences())
    cell = next(
        row
        for row in tables["against-paper"]
        if (row["title"], row["method"], row["group"], row["metric"]) == ("vit-b", "OF", "R", "TPIR")
    )
    assert (cell["place"], cell["paper"], cell["ours"], cell["operating_point"]) == (
        "Table V",
        "0.982",
        "0.982",
        "0.0001",
    )


def test_papers_evidence_knows_what_the_paper_says_in_words() -> None:
    n = papers_evidence()[0]
    hd, of = (n.number(method, "Ftr-Ftr", "W1", "S2") for method in ("HD", "OF"))
    assert hd.missing
    assert n.exceeds(hd, of) is True
    assert n.exceeds(of, hd) is False


def test_a_difference_that_the_text_names_twice_is_counted_once() -> None:
    """Of the committed run of the tenth: 188 places, 167 differences."""
    with (ROOT / "results/tenth/against-paper-signs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    keys = {tuple(row[name] for name in row if name not in ("place", "ours_higher", "ours_lower")) for row in rows}
    text = (ROOT / "results/tenth/against-paper.md").read_text()
    assert f"Of the {len(keys)} distinct differences that the text names:" in text
    found = compared()
    signs = found.distinct()
    assert len(signs) < len(found.signs)
    places = {place for sign in signs for place in sign.difference.place.split(", ")}
    assert places == {sign.difference.place for sign in found.signs}
