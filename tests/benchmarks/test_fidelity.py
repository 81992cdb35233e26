"""The evidence behind docs/fidelity.md: its expectations against draws, its rules against the paper's own tables."""

from pathlib import Path

import numpy as np
import pytest

from damnatio.partitions import Partitions, counts, draw
from damnatio.recipe.files import load
from damnatio.recipe.schema import PartitionSettings
from damnatio.reporting.paper import facts
from damnatio.support.tables import Table
from fidelity import table_two, trials
from fidelity.rules import RULES

PAPER = {
    "CP": {("Ftr-Ftr", "W1"): 0.435, ("FtrxFtr", "FMR"): 0.300, ("Ftr-Ftr", "TMR"): 0.549},
    "NG+": {("Ftr-Ftr", "W1"): 0.968, ("Ftr-Ftr", "TMR"): 0.999, ("R", "TMR"): 1.0},
    "CURE": {("RxR", "deformation"): 0.943, ("R", "TPIR"): 0.594, ("R", "TMR"): 0.996},
    "HD": {("FtrxFtr", "FMR"): 0.028, ("R", "std"): 0.095, ("R", "deformation"): 0.014},
    "PD": {("FtrxFtr", "FMR"): 0.104, ("R", "std"): 0.095},
    "OF": {("Ftr-Ftr", "TMR"): 0.000, ("R", "TMR"): 1.0, ("R", "TPIR"): 0.933},  # ViT-S
    "EC": {("Ftr-Ftr", "TMR"): 0.001, ("Fev-Fev", "TMR"): 0.548, ("R", "deformation"): 0.015},
}
STAR = {
    ("Ftr-Ftr", "W1"): 0.480,
    ("Ftr-Ftr", "TMR"): 0.986,
    ("Fev-Fev", "TMR"): 0.985,
    ("R", "TMR"): 1.0,
    ("R", "TPIR"): 0.979,
    ("R", "std"): 0.110,
    ("FtrxFtr", "FMR"): 0.010,
}
"""of f*, at S1 and the operating points of the rules"""
HD_OF_VIT_S = {("R", "TPIR"): 0.906}


@pytest.mark.parametrize("method", RULES)
def test_the_paper_itself_keeps_the_rules(method: str) -> None:
    def look(group: str, metric: str, point: float | None = None, *, star: bool = False, beside: bool = False) -> float:
        return (STAR if star else HD_OF_VIT_S if beside else PAPER[method])[group, metric]

    assert [rule.text for rule in RULES[method] if not rule.holds(look)] == []


@pytest.mark.parametrize("method", RULES)
def test_f_star_does_not_keep_them_all(method: str) -> None:
    """So a method that does nothing is not taken for the paper's."""
    nothing = {("RxR", "deformation"): 0.0, ("R", "deformation"): 0.0, **STAR}

    def look(group: str, metric: str, point: float | None = None, *, star: bool = False, beside: bool = False) -> float:
        return nothing[group, metric]

    assert not all(rule.holds(look) for rule in RULES[method])


@pytest.mark.parametrize(
    ("backbone", "kept"), [("iresnet34", [True, False, False, False]), ("vit-s", [True] * 4), ("vit-b", [True] * 4)]
)
def test_the_rules_of_of_tell_the_papers_networks_apart(backbone: str, kept: list[bool]) -> None:
    """By Table V, where all operating points are 0.0001."""
    cells = {
        (row["method"], row["group"], row["metric"]): float(row["value"])
        for row in facts.numbers()
        if (row["place"], row["backbone"]) == ("Table V", backbone) and row["value"]
    }

    def look(group: str, metric: str, point: float | None = None, *, star: bool = False, beside: bool = False) -> float:
        return cells["original" if star else "HD" if beside else "OF", group, metric]

    assert [rule.holds(look) for rule in RULES["OF"]] == kept


@pytest.mark.parametrize("family", table_two.FAMILIES)
def test_every_family_has_the_mean_of_webface(family: str) -> None:
    make, bounds = table_two.FAMILIES[family]
    for spread in (*bounds, sum(bounds) / 2):
        population = make(spread)
        assert population.sum() == pytest.approx(1)
        assert population @ table_two.NUMBERS == pytest.approx(4_200_000 / 205_990)


def test_expected_counts_are_those_of_real_draws() -> None:
    """Of our own partitions of a crowd: the mean over seeds, within five standard errors."""
    population = table_two.log_normal(0.8)
    rng = np.random.default_rng(0)
    settings = PartitionSettings(
        retain=5, control=2, test=2, development=2, distractors=0, scales={"S1": 200}, forget_min_images=12,
        forget_counts="images",
    )  # fmt: skip
    kept, rule = table_two.Kept(0.7), table_two.Rule("images", 12)
    one = table_two.expected(rule.chances(population, kept))
    found = []
    for seed in range(4):
        sizes = rng.choice(table_two.NUMBERS, 700, p=population)
        names = np.repeat([f"{k:04d}" for k in range(len(sizes))], sizes).astype(object)
        first = np.append(True, names[1:] != names[:-1])
        faces = Table(
            {
                "image": [str(k) for k in range(len(names))],
                "identity": names,
                "kept": first | (rng.random(len(names)) < 0.7),
            }
        )
        (row,) = counts(Partitions(draw(faces, settings, seed).table, {"S1": 200})).rows()
        found.append([row["mated F tr->ev"], row["mated F ev-ev"], row["mated F tr-tr"]])
    errors = np.sqrt(one.covariance.diagonal() / (200 * len(found)))
    assert (np.abs(np.mean(found, axis=0) / 200 - one.means) < 5 * errors).all()


@pytest.mark.parametrize("kept", table_two.KEPT)
def test_what_is_kept_of_an_identity_is_a_distribution_of_the_mean_asked_for(kept: table_two.Kept) -> None:
    chances = table_two._kept(kept)
    assert chances.sum(axis=1) == pytest.approx(np.ones(len(table_two.NUMBERS)))
    means = chances @ np.arange(chances.shape[1])
    assert means == pytest.approx(1 + kept.share * (table_two.NUMBERS - 1))


def test_the_recipe_of_the_paper_has_the_minimum_of_the_study() -> None:
    settings = load("paper-tables-3-4").partitions
    assert (settings.forget_min_images, settings.forget_counts) == (table_two.CHOSEN, "images")


@pytest.mark.parametrize(("page", "variant"), [(trials.TRIALS, "CP-epoch"), (trials.WHY, "CP-20")])
def test_a_page_of_trials_counts_the_rules_that_hold(page: trials.Page, variant: str, tmp_path: Path) -> None:
    """One variant as the paper's CP, all others as f*."""
    lines = ["scale,method,group,metric,operating_point,value,count"]
    for method in page.variants():
        for group, metric, point in page.rows:
            value = STAR.get((group, metric), 0.0)
            if method == variant:
                value = PAPER["CP"].get((group, metric), value)
            if not (method == "original" and metric == "deformation"):
                lines.append(f"{page.scale},{method},{group},{metric},{'' if point is None else point},{value},9")
    (tmp_path / "results.csv").write_text("\n".join([*lines, f"{page.scale},GA,R,TMR,0.01,1,9"]) + "\n")
    trials.keep(page, tmp_path / "results.csv", tmp_path / "kept.csv")
    assert "GA" not in (tmp_path / "kept.csv").read_text()
    text = "\n".join(trials.pages(page, tmp_path / "kept.csv"))
    assert "| rules that hold |  | 1 of 3 | 3 of 3 |" in text
    assert "0.435 against 0.480" in text


@pytest.mark.parametrize(("recipe", "page"), trials.PAGES.items())
def test_the_recipe_of_a_page_has_what_the_page_compares(recipe: str, page: trials.Page) -> None:
    methods = load(Path(trials.__file__).with_name(f"{recipe}.yaml")).forget.methods
    assert set(methods) == set(page.variants()) - {trials.ORIGINAL}
