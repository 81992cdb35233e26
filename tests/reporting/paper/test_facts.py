"""The paper's numbers: against cells copied by hand, and against the paper's text where it is at hand."""

import re
from collections import Counter

import pytest

from damnatio.reporting.paper import facts
from tests.assets import ASSETS

PAPER = sorted((ASSETS / "paper").glob("*.txt"))


def value(**wanted: object) -> float:
    rows = [row for row in facts.results().rows() if all(row[name] == cell for name, cell in wanted.items())]
    assert len(rows) == 1, wanted
    return float(rows[0]["value"])


def test_every_cell_of_the_four_tables_is_there() -> None:
    tables = Counter(row["place"] for row in facts.numbers() if row["place"].startswith("Table"))
    assert tables == {"Table II": 2 * 10, "Table III": 8 * 6, "Table IV": 20 * 16, "Table V": 6 * 3 * (5 + 4)}


def test_cells_copied_by_hand() -> None:
    one = {"backbone": "iresnet34", "task": "1:1"}
    assert value(**one, scale="S1", method="NG+", group="Ftr-Ftr", metric="W1") == 0.968
    assert value(**one, scale="S2", method="CURE", group="RxR", metric="deformation") == 0.739
    assert value(**one, scale="S2", method="OF", group="Fev-Fev", metric="TMR", operating_point=1e-2) == 0.220
    assert value(**one, scale="S1", method="CP", group="FtrxFtr", metric="FMR", operating_point=1e-2) == 0.300
    assert value(backbone="vit-s", task="1:N", scale="S1", method="EC", group="Ftr", metric="TPIR") == 0.171
    assert value(backbone="vit-b", task="1:1", scale="S1", method="CP", group="Ftr-Fev", metric="TMR") == 0.404
    assert value(**one, scale="S1", method="OF", group="R", metric="quantile_0.001") == 0.144
    assert value(**one, scale="S1", method="HD", group="R", metric="footprint") == 0.015
    assert value(**one, scale="S2", method="OF", group="R", metric="footprint") == 0.244
    counts = {(r["scale"], r["group"], r["metric"]): r["value"] for r in facts.numbers() if r["place"] == "Table II"}
    assert counts["S1", "avg(Ftr)-Fev", "comparisons"] == "6289"
    assert counts["S2", "F", "identities"] == "5000"


def test_two_tables_agree_where_they_give_one_number() -> None:
    """Table V repeats the iResNet-34 at 1e-4."""
    names = ("backbone", "scale", "method", "task", "group", "operating_point", "metric")
    fourth, fifth = (
        {tuple(row[name] for name in names): row["value"] for row in facts.numbers() if row["place"] == table}
        for table in ("Table IV", "Table V")
    )
    shared = fourth.keys() & fifth.keys()
    assert len(shared) == 6 * 8
    assert all(fourth[key] == fifth[key] for key in shared)


@pytest.mark.skipif(not PAPER, reason=f"The paper's text is not in {ASSETS / 'paper'}")
def test_tables_are_the_papers() -> None:
    """All numbers of a table in the order in which it is typeset."""
    text = PAPER[0].read_text()
    for label, name in (("kl", "Table III"), ("results", "Table IV"), ("backbones", "Table V")):
        start = text.index(f"\\label{{tab:{label}}}")
        printed = re.findall(r"\$(?:\\mathbf\{)?(\d\.\d{3})", text[start : text.index("\\end{table", start)])
        ours = [row["value"] for row in facts.numbers() if row["place"] == name]
        assert printed == ours


def test_backbones_of_other_names_stand_for_one_of_the_papers() -> None:
    assert [facts.like(name) for name in ("vit-b", "vit-tiny", "iresnet34", "mobilefacenet", "iresnet100")] == [
        "vit-b",
        "vit-s",
        "iresnet34",
        "iresnet34",
        "iresnet34",
    ]
