"""Templates of f*, probes of f: fractions worked by hand, and what follows where f is f*."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from damnatio.evaluation.legacy import Embedded
from damnatio.evaluation.measuring import measure, reference_from
from damnatio.evaluation.protocol import compare
from damnatio.evaluation.rates import Result
from damnatio.partitions import Partitions
from damnatio.support.tables import Table
from tests.evaluation.naive import TARGETS, Key, Naive, Results, Vector
from tests.evaluation.small_world import SCALES, assert_equal, assert_same, compared, keyed, partitions, random_units

LEGACY = ("TMR_legacy", "FMR_legacy", "TPIR_legacy")
TWICE = ("T single", "B", "Ftr-Ftr")
"""groups in which either image of a pair may be the enrolled one"""


# --- by hand ---------------------------------------------------------------------------------------------------------

IMAGES = """
r1 R enrol | r1 R probe x | r2 R enrol | r2 R probe
t1 T enrol | t1 T probe | t1 T probe t2 | t2 T enrol | t2 T probe
f1 F train y | f1 F train | f1 F eval z
b1 B | b1 B w | b2 B | b2 B | b2 B
d1 D r1 | d2 D | d3 D | d4 D
"""
"""Identity, partition and role of each image. Under f* every identity has an axis of its own. Under f an image that
names one more axis has moved there."""


def by_hand() -> tuple[Table, Embedded, Embedded]:
    """The table, f* and f."""
    images = [line.split() for row in IMAGES.strip().splitlines() for line in row.split("|")]
    axes = sorted({words[0] for words in images} | set("wxyz"))
    names = ("row", "image", "identity", "partition", "control", "scale", "role", "bystander")
    table: dict[str, list[Any]] = {name: [] for name in names}
    old, new = np.zeros((len(images), len(axes))), np.zeros((len(images), len(axes)))
    for row, (person, partition, *rest) in enumerate(images):
        role = rest.pop(0) if rest and rest[0] in ("enrol", "probe", "train", "eval") else ""
        values = (row, f"{person}/{row}", person, partition, partition == "R", "S1" * (partition == "F"), role)
        for name, value in zip(table, (*values, partition == "B"), strict=True):
            table[name].append(value)
        old[row, axes.index(person)] = 1
        new[row, axes.index(rest[0] if rest else person)] = 1
    rows = np.arange(len(images))
    return Table(table), Embedded(old, rows), Embedded(new, rows)


def test_fractions_by_hand() -> None:
    """All strangers score 0 under f*, so its thresholds lie just above 0: a score of 1 is accepted, and none of 0."""
    table, star, model = by_hand()
    parts = Partitions(table, {"S1": 1})
    first = measure(compare(star.units, star.rows, parts, "S1", 0, 1), [0.1], None)
    scores = compare(model.units, model.rows, parts, "S1", 0, 1, star)
    found = keyed(measure(scores, [0.1], reference_from(first)).results)
    wanted: dict[Key, tuple[int, int]] = {
        ("1:1", "R", 0.1, "TMR_legacy"): (1, 2),
        ("1:1", "T", 0.1, "TMR_legacy"): (2, 3),
        ("1:1", "T single", 0.1, "TMR_legacy"): (6, 8),  # the image that moved is found where it was enrolled
        ("1:1", "B", 0.1, "TMR_legacy"): (7, 8),
        ("1:1", "Ftr-Ftr", 0.1, "TMR_legacy"): (1, 2),
        ("1:1", "Ftr-Fev", 0.1, "TMR_legacy"): (0, 2),
        ("1:1", "avg(Ftr)-Fev", 0.1, "TMR_legacy"): (0, 1),
        ("1:1", "TxT", 0.1, "FMR_legacy"): (1, 3),
        ("1:N", "R", 0.1, "TPIR_legacy"): (1, 2),
        ("1:N", "T", 0.1, "TPIR_legacy"): (2, 3),
        ("1:N", "Ftr", 0.1, "TPIR_legacy"): (0, 1),
        ("1:N", "D", 0.1, "FPIR_legacy"): (1, 4),
        ("1:1", "T", 0.1, "TMR"): (2, 3),
        ("1:1", "T single", 0.1, "TMR"): (2, 4),
        ("1:1", "B", 0.1, "TMR"): (3, 4),
    }
    for group, unchanged, images in (("R", 3, 4), ("T", 4, 5), ("B", 4, 5), ("F", 1, 3), ("Ftr", 1, 2), ("Fev", 0, 1)):
        for metric in ("drift_cosine", "unchanged"):
            wanted["1:1", group, None, metric] = unchanged, images
    for key, (successes, count) in wanted.items():
        assert found[key][0] == pytest.approx(successes / count), key
        assert found[key][1] == count, key
    people = {"T": Fraction(3, 4), "T single": Fraction(2, 3), "B": Fraction(1, 2), "R": Fraction(1, 2)}
    for group, mean in people.items():
        value, count = found["1:1", group, 0.1, "TMR_person"]
        assert value == pytest.approx(float(mean)), group
        assert count == 2
    of_f = {key for key in found if key[3].endswith("_legacy") or key[3] in ("drift_cosine", "unchanged")}
    assert of_f <= set(wanted)


# --- f that is f* ----------------------------------------------------------------------------------------------------


def altered(table: Table, units: Vector, star: Embedded, *, most: int = 0, replicates: int = 0) -> list[Result]:
    """The results of a model whose f* is given, at the large scale."""
    parts = Partitions(table, SCALES)
    first = measure(compare(star.units, star.rows, parts, "S2", most, 1), TARGETS, None)
    scores = compare(units, star.rows, parts, "S2", most, 1, star)
    return measure(scores, TARGETS, reference_from(first), replicates).results


@pytest.mark.parametrize("most", [0, 10])
def test_model_equal_to_the_original_has_its_rates_in_the_legacy_gallery_and_no_drift(most: int) -> None:
    """Intervals as well; also where non-mated pairs are drawn."""
    table = partitions()
    star = Embedded(*random_units(table, 1))
    results = altered(table, star.units.copy(), star, most=most, replicates=20)
    by = {(r.task, r.group, r.operating_point, r.metric): r for r in results}
    legacy = [result for result in results if result.metric in LEGACY]
    assert {result.group for result in legacy} >= {"R", "T", "T single", "B", "Ftr-Fev", "avg(Ftr)-Fev", "TxT", "Ftr"}
    for result in legacy:
        fixed = by[result.task, result.group, result.operating_point, result.metric.replace("legacy", "fixed")]
        assert result.value == fixed.value, result
        assert (result.low, result.high) == (fixed.low, fixed.high), result
        assert result.subjects == fixed.subjects
        assert result.count == fixed.count * (2 if result.group in TWICE else 1)
    for target in TARGETS:
        false = by["1:N", "D", target, "FPIR_legacy"]
        assert (false.value, false.count) == (by["1:N", "D", target, "FPIR"].value, false.count)
    for group in ("R", "T", "B", "F", "Ftr", "Fev"):
        assert by_metric(results, group, "drift_cosine").value == 1.0
        same = by_metric(results, group, "unchanged")
        assert (same.value, same.low, same.high) == (1.0, 1.0, 1.0)


def by_metric(results: list[Result], group: str, metric: str) -> Result:
    (found,) = [result for result in results if (result.group, result.metric) == (group, metric)]
    return found


def test_last_bit_of_an_embedding_counts() -> None:
    """It is below the grid of the scores: they stay, and the image is not unchanged."""
    table = partitions()
    star = Embedded(*random_units(table, 1))
    units = star.units.copy()
    place = int(np.flatnonzero(table["partition"][star.rows] == "T")[0])
    units[place, 0] = np.nextafter(units[place, 0], 2)
    results = altered(table, units, star)
    images = int((table["partition"] == "T").sum())
    assert by_metric(results, "T", "unchanged").value == pytest.approx((images - 1) / images)
    assert by_metric(results, "T", "drift_cosine").value == 1.0
    assert by_metric(results, "R", "unchanged").value == 1.0


# --- what does not matter, and what is absent ------------------------------------------------------------------------


def test_order_of_the_originals_vectors_does_not_matter() -> None:
    table = partitions()
    star, units = Embedded(*random_units(table, 3)), random_units(table, 4)[0]
    order = np.random.default_rng(0).permutation(len(star.rows))
    turned = Embedded(star.units[order], star.rows[order])
    parts = Partitions(table, SCALES)
    reference = reference_from(measure(compared(table, star.units, star.rows, "S2"), TARGETS, None))
    once, again = (
        measure(compare(units, star.rows, parts, "S2", 0, 1, first), TARGETS, reference, 10).results
        for first in (star, turned)
    )
    assert_equal(once, again)


def test_image_of_a_larger_scale_may_lack_under_the_original() -> None:
    """Then it is no bystander."""
    table = partitions()
    original, model = random_units(table, 3), random_units(table, 4)
    small = np.isin(original[1], Partitions(table, SCALES).evaluated("S1"))
    assert not small.all()
    star = Embedded(original[0][small], original[1][small])
    reference = reference_from(measure(compared(table, *original, "S1"), TARGETS, None))
    results = measure(compared(table, *model, "S1", star), TARGETS, reference).results
    within = table.where(table["scale"] != "S2")
    naive = Naive(within, *model, "S1").results(reference=Naive(within, *original, "S1"))
    assert_same(keyed(results), naive)


def test_without_bystanders_their_group_is_absent_and_all_others_are_as_they_were() -> None:
    table = partitions()
    star, units = Embedded(*random_units(table, 3)), random_units(table, 4)[0]
    nobody = Table({name: values for name, values in table.columns.items() if name != "bystander"})
    with_, without = (keyed(altered(each, units, star)) for each in (table, nobody))
    lacking = {key for key in with_ if key[1] == "B"}
    assert {key[3] for key in lacking} >= {"TMR", "TMR_fixed", "TMR_person", "TMR_legacy", "drift_cosine", "unchanged"}
    assert_same(without, {key: value for key, value in with_.items() if key not in lacking})


def test_original_itself_has_no_legacy_rows() -> None:
    table = partitions()
    found: Results = keyed(measure(compared(table, *random_units(table, 1), "S2"), TARGETS, None).results)
    assert not [key for key in found if key[3].endswith("_legacy") or key[3] in ("drift_cosine", "unchanged")]


def test_legacy_gallery_without_the_thresholds_of_the_original_is_refused() -> None:
    table = partitions()
    embedded = random_units(table, 1)
    with pytest.raises(ValueError, match="no reference"):
        measure(compared(table, *embedded, "S2", Embedded(*embedded)), TARGETS, None)


def test_group_without_an_image_has_no_drift() -> None:
    table = partitions()
    roles = table["role"].copy()
    roles[roles == "eval"] = "train"
    table = table.with_columns(role=roles)
    results = altered(table, random_units(table, 2)[0], Embedded(*random_units(table, 1)))
    assert {result.group for result in results if result.metric == "drift_cosine"} == {"R", "T", "B", "F", "Ftr"}
    (searched,) = [r for r in results if (r.group, r.metric, r.operating_point) == ("Ftr", "TPIR_legacy", 0.1)]
    assert math.isnan(searched.value)
