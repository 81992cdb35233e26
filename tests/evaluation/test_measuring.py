"""Every number of an evaluation against the second implementation in naive.py."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damnatio.evaluation import nonmated
from damnatio.evaluation.legacy import Embedded
from damnatio.evaluation.measuring import Measured, measure, reference_from, reference_of, write
from damnatio.evaluation.protocol import Comparisons, compare
from damnatio.evaluation.rates import COLUMNS, Result
from damnatio.metrics.verification import acceptance_rate, threshold_at
from damnatio.partitions import Partitions
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table
from tests.evaluation.naive import TARGETS, Naive, share
from tests.evaluation.small_world import (
    DIM,
    SCALES,
    assert_equal,
    assert_same,
    compared,
    keyed,
    partitions,
    random_units,
)

# --- the numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_result_of_the_original_model_against_loops(scale: str, seed: int) -> None:
    table = partitions(seed)
    embedded = random_units(table, seed)
    results = measure(compared(table, *embedded, scale), TARGETS, None).results
    naive = Naive(table, *embedded, scale)
    assert_same(keyed(results), naive.results(reference=naive))


@pytest.mark.parametrize("scale", SCALES)
def test_every_result_of_an_altered_model_against_loops(scale: str) -> None:
    """With the rates at the thresholds of f*, those in its gallery, and the distances and drift from it."""
    table = partitions()
    original, altered = random_units(table, 3), random_units(table, 4)
    altered[0][::3] = original[0][::3]  # some images are where they were
    reference = reference_from(measure(compared(table, *original, scale), TARGETS, None))
    results = measure(compared(table, *altered, scale, Embedded(*original)), TARGETS, reference).results
    assert_same(keyed(results), Naive(table, *altered, scale).results(reference=Naive(table, *original, scale)))


def test_original_model_has_no_footprint_and_its_own_thresholds_are_the_fixed_ones() -> None:
    table = partitions()
    results = keyed(measure(compared(table, *random_units(table, 1), "S2"), TARGETS, None).results)
    assert results["1:1", "R", None, "footprint"][0] == 0
    for (task, group, point, metric), value in results.items():
        if metric.endswith("_fixed"):
            assert value == results[task, group, point, metric.removesuffix("_fixed")]


def test_results_of_the_groups_differ_at_the_two_scales_only_where_forget_images_take_part() -> None:
    table = partitions()
    embedded = random_units(table, 1)
    small, large = (keyed(measure(compared(table, *embedded, scale), TARGETS, None).results) for scale in ("S1", "S2"))
    for key in small:
        if key[0] == "1:1" and key[1] in ("R", "T", "RxR", "TxT", "D"):
            assert small[key] == large[key]
    assert small["1:1", "Ftr-Ftr", 0.1, "TMR"][1] < large["1:1", "Ftr-Ftr", 0.1, "TMR"][1]


# --- what must never be compared -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
def test_no_image_is_compared_with_itself_or_a_template_that_holds_it(scale: str) -> None:
    """Every image has an axis of its own: two different images score 0, and any that meets itself scores more."""
    table = partitions()
    rows = Partitions(table, SCALES).evaluated()
    scores = compared(table, np.eye(len(rows)), rows, scale, Embedded(np.eye(len(rows)), rows))
    assert not scores.development.scores.any()
    groups: list[tuple[str, Any]] = [*scores.mated.items(), *scores.nonmated.items(), *scores.alarms.items()]
    assert scores.legacy is not None
    groups += [*scores.legacy.mated.items(), ("legacy T", scores.legacy.nonmated), ("legacy D", scores.legacy.alarms)]
    for group, compared_ in groups:
        assert len(compared_.scores), group
        assert not compared_.scores.any(), group
    for group, searches in [*scores.searches.items(), *scores.legacy.searches.items()]:
        assert len(searches.own), group
        assert not searches.own.any(), group
        assert not searches.best.any(), group


def test_evaluation_at_the_small_scale_sees_identities_of_the_large_one_as_bystanders_only() -> None:
    table = partitions()
    units, rows = random_units(table, 1)
    outside = table["scale"][rows] == "S2"
    assert outside.any()
    moved = units.copy()
    moved[outside] = random_units(table, 2)[0][outside]
    before, after = (keyed(measure(compared(table, u, rows, "S1"), TARGETS, None).results) for u in (units, moved))
    for key in before:
        if key[1] != "B":
            assert before[key] == pytest.approx(after[key], nan_ok=True), key
    assert before["1:1", "B", 0.01, "TMR"] != after["1:1", "B", 0.01, "TMR"]
    large = [keyed(measure(compared(table, u, rows, "S2"), TARGETS, None).results) for u in (units, moved)]
    assert large[0]["1:1", "Ftr-Ftr", 0.1, "TMR"] != large[1]["1:1", "Ftr-Ftr", 0.1, "TMR"]


def test_rows_compared_leave_out_the_dropped_and_the_trained_outside_the_control() -> None:
    table = partitions()
    expected = [
        row["row"]
        for row in table.rows()
        if row["partition"] in ("T", "D", "G")
        or (row["partition"] == "R" and row["control"])
        or (row["partition"] == "F" and row["role"] != "dropped")
    ]
    assert Partitions(table, SCALES).evaluated().tolist() == expected
    assert "dropped" in set(table["role"])


def with_roles(table: Table, identities: set[str], role: str) -> Table:
    """The table with all images of these forget identities in one role."""
    roles = table["role"].copy()
    for place, (name, now) in enumerate(zip(table["identity"], table["role"], strict=True)):
        if name in identities and now in ("train", "eval"):
            roles[place] = role
    return table.with_columns(role=roles)


def forget_identities(table: Table) -> list[str]:
    return sorted(set(table["identity"][table["partition"] == "F"]))


def test_identity_without_an_eval_image_contributes_forget_train_comparisons_only() -> None:
    table = partitions()
    person = forget_identities(table)[0]
    table = with_roles(table, {person}, "train")
    embedded = random_units(table, 1)
    scores = compared(table, *embedded, "S2")
    code = sorted(set(table["identity"][embedded[1]])).index(person)
    assert code in scores.mated["Ftr-Ftr"].subjects
    assert code not in scores.mated["Ftr-Fev"].subjects
    assert code not in scores.mated["Fev-Fev"].subjects
    naive = Naive(table, *embedded, "S2")
    assert_same(keyed(measure(scores, TARGETS, None).results), naive.results(reference=naive))


def test_lone_eval_image_is_searched_in_the_train_gallery_only() -> None:
    table = partitions()
    person = forget_identities(table)[0]
    table = with_roles(table, {person}, "train")
    roles = table["role"].copy()
    roles[np.flatnonzero((table["identity"] == person) & (roles == "train"))[0]] = "eval"
    table = table.with_columns(role=roles)
    embedded = random_units(table, 1)
    scores = compared(table, *embedded, "S2")
    probes = int(((table["role"] == "eval") & (table["partition"] == "F")).sum())
    lone = [images for images in Naive(table, *embedded, "S2").of("F eval").values() if len(images) == 1]
    assert len(scores.searches["Ftr"].own) == probes
    assert len(scores.searches["Fev"].own) == probes - len(lone) < probes
    naive = Naive(table, *embedded, "S2")
    assert_same(keyed(measure(scores, TARGETS, None).results), naive.results(reference=naive))


def test_probe_without_a_template_in_the_gallery_is_no_mated_search() -> None:
    table = partitions()
    person = forget_identities(table)[0]
    table = with_roles(table, {person}, "eval")
    embedded = random_units(table, 1)
    scores = compared(table, *embedded, "S2")
    evaluated = (table["role"] == "eval") & (table["partition"] == "F")
    assert len(scores.searches["Ftr"].own) == int((evaluated & (table["identity"] != person)).sum())
    naive = Naive(table, *embedded, "S2")
    assert_same(keyed(measure(scores, TARGETS, None).results), naive.results(reference=naive))


def test_group_without_a_comparison_has_no_rate_and_a_count_of_zero() -> None:
    """All forget identities too small to split: no forget-eval image anywhere."""
    table = partitions()
    table = with_roles(table, set(forget_identities(table)), "train")
    embedded = random_units(table, 1)
    results = keyed(measure(compared(table, *embedded, "S2"), TARGETS, None).results)
    empty = [("1:1", group, "TMR") for group in ("Ftr-Fev", "Fev-Fev", "avg(Ftr)-Fev")]
    empty += [("1:1", "FevxFev", "FMR"), ("1:N", "Ftr", "TPIR"), ("1:N", "Fev", "TPIR")]
    empty += [("1:1", "Ftr-Fev", "weakly_forgotten"), ("1:1", "Fev-Fev", "weakly_forgotten")]
    for task, group, metric in empty:
        value, count = results[task, group, 0.1, metric]
        assert math.isnan(value), group
        assert count == 0, group
    assert math.isnan(results["1:1", "Fev-Fev", None, "W1"][0])
    naive = Naive(table, *embedded, "S2")
    assert_same(results, naive.results(reference=naive))


def test_evaluation_without_distractors() -> None:
    table = partitions()
    parts = table["partition"].copy()
    parts[parts == "G"] = "-"
    table = table.with_columns(partition=parts)
    embedded = random_units(table, 1)
    naive = Naive(table, *embedded, "S2")
    results = keyed(measure(compared(table, *embedded, "S2"), TARGETS, None).results)
    assert_same(results, naive.results(reference=naive))


def test_collapsed_model_identifies_and_verifies_nobody() -> None:
    """One embedding for every image: all scores tie, so no threshold lets a mated pair in and a non-mated one not."""
    table = partitions()
    rows = Partitions(table, SCALES).evaluated()
    for seed in range(5):
        vector = np.random.default_rng(seed).normal(size=DIM)
        units = np.tile(vector / np.linalg.norm(vector), (len(rows), 1))
        results = keyed(measure(compared(table, units, rows, "S2"), TARGETS, None).results)
        rates = {key: value for key, (value, _) in results.items() if key[3] in ("TMR", "FMR", "TPIR", "FPIR")}
        assert rates == dict.fromkeys(rates, 0.0)


# --- sampling, warnings, files ---------------------------------------------------------------------------------------


def test_sampled_nonmated_scores_are_so_many_and_the_same_for_a_seed() -> None:
    table = partitions()
    units, rows = random_units(table, 1)
    once, again, other = (compare(units, rows, Partitions(table, SCALES), "S2", 10, seed) for seed in (1, 1, 2))
    for group, pairs in once.nonmated.items():
        assert pairs.count == len(pairs.scores) == 10, group
        assert np.array_equal(pairs.scores, again.nonmated[group].scores), group
        assert not np.array_equal(pairs.scores, other.nonmated[group].scores), group
    assert len(once.development.scores) == 10
    for group, mated in once.mated.items():
        assert np.array_equal(mated.scores, other.mated[group].scores), group


def test_operating_point_beyond_the_development_set_is_warned_of() -> None:
    table = partitions()
    warnings = measure(compared(table, *random_units(table, 1), "S2"), [1e-6, 0.5], None).warnings
    assert [(w["task"], w["group"]) for w in warnings if w["operating_point"] == 1e-6] == [
        ("1:1", "D"),
        ("1:N", "D"),
        ("1:N", "Dev"),
    ]
    texts = [w["warning"] for w in warnings if w["operating_point"] == 1e-6]
    assert all("1e-06 cannot be resolved" in text and "at least 1,000,000 are needed" in text for text in texts)
    assert texts[0].startswith("FMR = ")
    assert texts[1].startswith("FPIR = ")


def written(folder: Path, scale: str = "S2") -> tuple[Comparisons, Measured]:
    table = partitions()
    scores = compared(table, *random_units(table, 1), scale)
    found = measure(scores, TARGETS, None, replicates=20)
    write(found, folder)
    return scores, found


def test_files_hold_the_results_the_warnings_and_the_reference(tmp_path: Path) -> None:
    scores, found = written(tmp_path)
    table = Table.read(tmp_path / "results.parquet")
    assert tuple(table.columns) == COLUMNS
    read = [Result(**row) for row in table.rows()]
    assert_equal(read, found.results)
    assert json.loads((tmp_path / "warnings.json").read_text()) == found.warnings
    reference = reference_of(tmp_path)
    for sample, values in ((reference.mated, scores.mated["R"]), (reference.nonmated, scores.nonmated["R"])):
        assert np.array_equal(np.repeat(sample.values, sample.counts), np.sort(values.scores))
        assert sample.error == 0
    own = [result for result in found.results if result.metric == "threshold"]
    assert len(reference.thresholds) == len(found.thresholds) == len(own)
    for result in own:
        for thresholds in (reference.thresholds, found.thresholds):
            assert thresholds.of(result.task, result.group, result.operating_point).value == result.value


def test_curves_agree_with_the_single_operating_points(tmp_path: Path) -> None:
    scores, found = written(tmp_path)
    curves = Table.read(tmp_path / "curves.parquet").rows()
    assert {row["group"] for row in curves if row["metric"] == "TMR"} == set(scores.mated)
    assert {row["group"] for row in curves if row["metric"] == "TPIR"} == set(scores.searches)
    results = keyed(found.results)
    for row in curves:
        if row["target"] in TARGETS:
            wanted = results[row["task"], row["group"], row["target"], row["metric"]]
            assert (row["rate"], row["count"]) == pytest.approx(wanted, abs=1e-12, nan_ok=True)
        if row["metric"] not in ("TMR", "TPIR"):  # tests/evaluation/test_operating_range.py
            continue
        group = row["group"]
        if row["task"] == "1:1":
            calibration = scores.development.scores
            rate = acceptance_rate(scores.mated[group].scores, row["threshold"])
        else:
            calibration = scores.alarms["Dev" if group == "Fev" else "D"].scores
            both = zip(scores.searches[group].own, scores.searches[group].best, strict=True)
            rate = share([own >= row["threshold"] and own > best for own, best in both])
        assert row["threshold"] == threshold_at(calibration, row["target"])
        assert row["attained"] == acceptance_rate(calibration, row["threshold"]) <= row["target"]
        assert row["rate"] == rate


# --- intervals -------------------------------------------------------------------------------------------------------


NO_RATES = (
    *("threshold", "threshold_0.001", "threshold_eer", "EER", "std", "quantile_0.001", "drift_cosine"),
    *("W1", "W1_retain", "deformation", "footprint", "weakly_forgotten_chance"),
)


def test_intervals_stand_beside_rates_and_nowhere_else() -> None:
    table = partitions()
    original, altered = random_units(table, 1), random_units(table, 2)
    reference = reference_from(measure(compared(table, *original, "S2"), TARGETS, None))
    results = measure(compared(table, *altered, "S2", Embedded(*original)), TARGETS, reference, replicates=60).results
    resampled = ("TMR", "FMR", "TPIR", "weakly_forgotten", "unchanged", "above_0.001", "TMR_eer")
    for r in results:
        if r.metric in NO_RATES:
            assert all(math.isnan(end) for end in (r.low, r.high, r.wilson_low, r.wilson_high))
            continue
        rate, _, kind = r.metric.rpartition("_")
        if kind == "person":  # a mean over people is no share of comparisons
            assert math.isnan(r.wilson_low)
            assert r.subjects == r.count
        else:
            assert r.wilson_low <= r.value <= r.wilson_high
        plain = rate if kind in ("fixed", "person", "legacy") else r.metric
        if (plain in resampled and r.group != "D") or r.metric == "FPIR_legacy":
            assert 0 < r.subjects <= r.count
            assert 0 <= r.low <= r.high <= 1, r
        else:
            assert math.isnan(r.low)
            assert math.isnan(r.high)


def test_subjects_are_the_people_behind_a_rate() -> None:
    table = partitions()
    results = measure(compared(table, *random_units(table, 1), "S2"), TARGETS, None).results
    people = {(result.task, result.group): result.subjects for result in results if result.subjects}
    kept = Naive(table, *random_units(table, 1), "S2")
    assert people["1:1", "T"] == len(kept.of("T"))
    assert people["1:1", "FtrxFtr"] == len(kept.of("F train"))
    assert people["1:N", "Ftr"] == len(kept.of("F eval"))


def test_replicates_change_no_number_but_the_intervals() -> None:
    table = partitions()
    scores = compared(table, *random_units(table, 1), "S2")
    without, with_ = (measure(scores, TARGETS, None, replicates).results for replicates in (0, 10))
    assert_same(keyed(with_), keyed(without))
    assert all(math.isnan(result.low) and math.isnan(result.high) for result in without)
    again = measure(compared(table, *random_units(table, 1), "S2"), TARGETS, None, 10).results
    assert_equal(again, with_)


def test_collapsed_model_has_intervals_of_no_width() -> None:
    table = partitions()
    rows = Partitions(table, SCALES).evaluated()
    units = np.tile(np.full(4, 0.5), (len(rows), 1))
    for result in measure(compared(table, units, rows, "S2"), TARGETS, None, replicates=10).results:
        if result.metric in ("TMR", "FMR", "TPIR") and result.group != "D":
            assert (result.low, result.high) == (0.0, 0.0)


# --- held and scanned ------------------------------------------------------------------------------------------------


def test_scanned_evaluation_is_the_held_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds, counts, rates and intervals are equal; distances and equal errors are known to within a bin."""
    table = partitions()
    original = random_units(table, 2)
    reference = reference_from(measure(compared(table, *original, "S2"), TARGETS, None))

    def measured() -> Measured:
        scores = compared(table, *random_units(table, 1), "S2", Embedded(*original))
        return measure(scores, TARGETS, reference, replicates=20)

    held = measured()
    monkeypatch.setattr(nonmated, "HELD", 0)
    scanned = measured()
    binned = ("W1", "W1_retain", "deformation", "footprint", "EER", "threshold_eer")
    assert_equal(
        [result for result in scanned.results if result.metric not in binned],
        [result for result in held.results if result.metric not in binned],
    )
    for result, other in zip(scanned.results, held.results, strict=True):
        assert result.count == other.count
        assert result.value == pytest.approx(other.value, abs=2e-6, nan_ok=True)
    assert scanned.warnings == held.warnings
    used = [result.value for result in held.results if result.task == "1:1" and result.metric == "threshold"]
    for group, spread in scanned.spreads.items():
        for threshold in used:  # those of the curve are known to within a cell
            assert spread.accepted[threshold] == held.spreads[group].accepted[threshold], group


def test_one_development_identity_has_no_threshold() -> None:
    table = partitions()
    units, rows = random_units(table, 1)
    names = table["identity"].copy()
    names[table["partition"] == "D"] = "somebody"
    with pytest.raises(DamnatioError, match="development"):
        measure(compared(table.with_columns(identity=names), units, rows, "S2"), TARGETS, None)
