"""Every number of an evaluation against a second implementation: Python loops over single images."""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from damnatio.evaluation import nonmated
from damnatio.evaluation.measuring import Measured, Row, measure, reference_from, reference_of, write
from damnatio.evaluation.protocol import Comparisons, compare
from damnatio.evaluation.scanning import on_grid
from damnatio.metrics.identification import true_positive_rate
from damnatio.metrics.verification import acceptance_rate, threshold_at
from damnatio.partitions import Partitions, draw
from damnatio.recipe.schema import PartitionSettings
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table

Vector = NDArray[np.float64]
Key = tuple[str, str, float | None, str]
Results = dict[Key, tuple[float, int]]

SCALES = {"S1": 2, "S2": 4}
TARGETS = (0.01, 0.1)
ALL = 1_000_000
DIM = 5
COUNTS = PartitionSettings(
    retain=5, control=3, test=3, development=5, distractors=3, scales=SCALES, min_images=4, forget_min_images=6
)


def partitions(seed: int = 1) -> Table:
    """Twenty identities of four to twelve images, of which some are not kept."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 13, 20)
    sizes[:8] = rng.integers(9, 13, 8)
    names = [f"p{i:02d}" for i in range(20) for _ in range(sizes[i])]
    images = [f"p{i:02d}/{j:02d}" for i in range(20) for j in range(sizes[i])]
    kept = rng.random(len(names)) < 0.9
    return draw(Table({"image": images, "identity": names, "kept": kept}), COUNTS, seed).table


def random_units(table: Table, seed: int) -> tuple[Vector, NDArray[np.int64]]:
    """Embeddings of the evaluated rows: the identity's direction and noise."""
    rng = np.random.default_rng(seed)
    rows = Partitions(table, SCALES).evaluated()
    centre = {name: rng.normal(size=DIM) for name in sorted(set(table["identity"]))}
    raw = np.array([centre[name] for name in table["identity"][rows]]) + rng.normal(size=(len(rows), DIM))
    return raw / np.linalg.norm(raw, axis=1, keepdims=True), rows


def compared(table: Table, units: Vector, rows: NDArray[np.int64], scale: str) -> Comparisons:
    return compare(units, rows, Partitions(table, SCALES), scale, ALL, seed=1)


def keyed(rows: list[Row]) -> Results:
    results: Results = {}
    for task, group, point, metric, value, count, *_ in rows:
        key = (task, group, None if math.isnan(point) else point, metric)
        assert key not in results, f"{key} is given twice"
        results[key] = value, count
    return results


# --- the second implementation ---------------------------------------------------------------------------------------


def dot(a: Vector, b: Vector) -> float:
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def template(vectors: list[Vector]) -> Vector:
    mean = sum(vectors, np.zeros(len(vectors[0]))) / len(vectors)
    return on_grid(mean / math.sqrt(dot(mean, mean)))


def naive_threshold(scores: list[float], target: float) -> float:
    candidates = [*scores, math.nextafter(max(scores), math.inf)]
    return min(c for c in candidates if sum(s >= c for s in scores) / len(scores) <= target)


def naive_equal_error(mated: list[float], nonmated: list[float]) -> float:
    candidates = sorted({*mated, *nonmated, math.nextafter(max([*mated, *nonmated]), math.inf)})
    rates = [(share([s < c for s in mated]), share([s >= c for s in nonmated])) for c in candidates]
    missed, false = min(rates, key=lambda pair: abs(pair[0] - pair[1]))
    return (missed + false) / 2


def share(successes: list[bool]) -> float:
    return sum(successes) / len(successes) if successes else math.nan


def naive_w1(a: list[float], b: list[float]) -> float:
    if not a or not b:
        return math.nan
    places = sorted([*a, *b])
    area = 0.0
    for left, right in pairwise(places):
        area += (right - left) * abs(sum(x <= left for x in a) / len(a) - sum(x <= left for x in b) / len(b))
    return area


class Naive:
    """The protocol of docs/protocol.md, one image at a time."""

    def __init__(self, table: Table, units: Vector, rows: NDArray[np.int64], scale: str) -> None:
        of_row = {int(row): unit for row, unit in zip(rows, on_grid(units), strict=True)}
        inside = {"S1"} if scale == "S1" else {"S1", "S2"}
        self.sets: dict[str, dict[str, list[Vector]]] = {}
        for row in table.rows():
            part, role, name = row["partition"], row["role"], row["identity"]
            if part == "F" and role in ("train", "eval") and row["scale"] in inside:
                self._add(f"F {role}", name, of_row[row["row"]])
            elif part == "T" or (part == "R" and row["control"]):
                self._add(f"{part} {role}", name, of_row[row["row"]])
                self._add(part, name, of_row[row["row"]])
            elif part in ("D", "G"):
                self._add(part, name, of_row[row["row"]])
        self.mated: dict[str, list[tuple[str, float]]] = {
            "R": self._template_mated("R enrol", "R probe"),
            "T": self._template_mated("T enrol", "T probe"),
            "Ftr-Ftr": self._pairs_within("F train"),
            "Ftr-Fev": self._pairs_between("F train", "F eval"),
            "Fev-Fev": self._pairs_within("F eval"),
            "avg(Ftr)-Fev": self._template_mated("F train", "F eval"),
        }
        self.nonmated = {
            "D": self._single_nonmated("D"),
            "T single": self._single_nonmated("T"),
            "RxR": self._template_nonmated("R enrol", "R probe"),
            "TxT": self._template_nonmated("T enrol", "T probe"),
            "FtrxFtr": self._single_nonmated("F train"),
            "FevxFev": self._single_nonmated("F eval"),
        }

    def _add(self, group: str, name: str, unit: Vector) -> None:
        self.sets.setdefault(group, {}).setdefault(name, []).append(unit)

    def of(self, group: str) -> dict[str, list[Vector]]:
        return self.sets.get(group, {})

    def _pairs_within(self, group: str) -> list[tuple[str, float]]:
        pairs = []
        for name, images in self.of(group).items():
            for i in range(len(images)):
                for j in range(i + 1, len(images)):
                    pairs.append((name, dot(images[i], images[j])))
        return pairs

    def _pairs_between(self, first: str, second: str) -> list[tuple[str, float]]:
        return [
            (name, dot(a, b))
            for name, images in self.of(first).items()
            for a in images
            for b in self.of(second).get(name, [])
        ]

    def _template_mated(self, enrolled: str, probes: str) -> list[tuple[str, float]]:
        return [
            (name, dot(template(images), probe))
            for name, images in self.of(enrolled).items()
            for probe in self.of(probes).get(name, [])
        ]

    def _template_nonmated(self, enrolled: str, probes: str) -> list[float]:
        return [
            dot(template(images), probe)
            for name, images in self.of(enrolled).items()
            for other, others in self.of(probes).items()
            if other != name
            for probe in others
        ]

    def _single_nonmated(self, group: str) -> list[float]:
        names = sorted(self.of(group))
        return [
            dot(a, b)
            for place, name in enumerate(names)
            for other in names[place + 1 :]
            for a in self.of(group)[name]
            for b in self.of(group)[other]
        ]

    def gallery(self, forget: str) -> dict[str, Vector]:
        groups = ("R enrol", "T enrol", forget, "G")
        return {name: template(images) for group in groups for name, images in self.of(group).items()}

    def search(self, probe: Vector, name: str, gallery: dict[str, Vector], own: Vector | None) -> tuple[float, float]:
        others = [dot(probe, vector) for other, vector in gallery.items() if other != name]
        return (dot(probe, own) if own is not None else -math.inf), max(others)

    def searches(self, group: str) -> list[tuple[float, float]]:
        gallery = self.gallery("F eval" if group == "Fev" else "F train")
        found = []
        for name, probes in self.of({"R": "R probe", "T": "T probe"}.get(group, "F eval")).items():
            for place, probe in enumerate(probes):
                if group == "Fev":
                    others = [image for i, image in enumerate(probes) if i != place]
                    own = template(others) if others else None
                else:
                    own = gallery.get(name)
                if own is not None:
                    found.append(self.search(probe, name, gallery, own))
        return found

    def alarms(self, forget: str) -> list[float]:
        gallery = self.gallery(forget)
        return [max(dot(image, t) for t in gallery.values()) for images in self.of("D").values() for image in images]

    def thresholds(self) -> dict[tuple[str, str, float], float]:
        scores = {
            ("1:1", "D"): self.nonmated["D"],
            ("1:N", "D"): self.alarms("F train"),
            ("1:N", "Dev"): self.alarms("F eval"),
        }
        return {(*key, target): naive_threshold(values, target) for key, values in scores.items() for target in TARGETS}

    def results(self, reference: "Naive") -> Results:
        results: Results = {}
        own, fixed = self.thresholds(), reference.thresholds()
        calibration = {
            ("1:1", "D", "FMR"): self.nonmated["D"],
            ("1:N", "D", "FPIR"): self.alarms("F train"),
            ("1:N", "Dev", "FPIR"): self.alarms("F eval"),
        }
        for target in TARGETS:
            for (task, group, rate), scores in calibration.items():
                threshold = own[task, group, target]
                results[task, group, target, "threshold"] = threshold, len(scores)
                results[task, group, target, rate] = share([s >= threshold for s in scores]), len(scores)
            for thresholds, suffix in ((own, ""), (fixed, "_fixed")):
                threshold = thresholds["1:1", "D", target]
                for group, pairs in self.mated.items():
                    rate_ = share([score >= threshold for _, score in pairs])
                    results["1:1", group, target, f"TMR{suffix}"] = rate_, len(pairs)
                for group in ("RxR", "TxT", "FtrxFtr", "FevxFev"):
                    scores = self.nonmated[group]
                    results["1:1", group, target, f"FMR{suffix}"] = share([s >= threshold for s in scores]), len(scores)
                for group in ("R", "T", "Ftr", "Fev"):
                    limit = thresholds["1:N", "Dev" if group == "Fev" else "D", target]
                    won = [mine >= limit and not other >= mine for mine, other in self.searches(group)]
                    results["1:N", group, target, f"TPIR{suffix}"] = share(won), len(won)
            results |= self._weakly_forgotten(own["1:1", "D", target], target)
        results |= self._distances(reference)
        return results

    def _weakly_forgotten(self, threshold: float, target: float) -> Results:
        groups = {group: self.mated[group] for group in ("Ftr-Ftr", "Ftr-Fev", "Fev-Fev")}
        groups["F"] = [pair for pairs in groups.values() for pair in pairs]
        results: Results = {}
        for group, pairs in groups.items():
            unlinked = []
            for person in {name for name, _ in pairs}:
                unlinked.append(all(score < threshold for name, score in pairs if name == person))
            results["1:1", group, target, "weakly_forgotten"] = share(unlinked), len(unlinked)
        return results

    def _distances(self, reference: "Naive") -> Results:
        results: Results = {}
        for group in ("Ftr-Ftr", "Ftr-Fev", "Fev-Fev", "avg(Ftr)-Fev"):
            scores = [score for _, score in self.mated[group]]
            like = self.nonmated["TxT" if group == "avg(Ftr)-Fev" else "T single"]
            results["1:1", group, None, "W1"] = naive_w1(scores, like), len(scores)
        mated, before = [s for _, s in self.mated["R"]], [s for _, s in reference.mated["R"]]
        moved = naive_w1(mated, before), naive_w1(self.nonmated["RxR"], reference.nonmated["RxR"])
        counts = len(mated), len(self.nonmated["RxR"])
        results["1:1", "R", None, "deformation"] = moved[0], counts[0]
        results["1:1", "RxR", None, "deformation"] = moved[1], counts[1]
        results["1:1", "R", None, "footprint"] = sum(moved), sum(counts)
        for group in ("R", "T"):
            own = [score for _, score in self.mated[group]]
            results["1:1", group, None, "EER"] = naive_equal_error(own, self.nonmated[f"{group}x{group}"]), len(own)
        return results


def assert_same(results: Results, naive: Results) -> None:
    assert set(results) == set(naive)
    for key, (value, count) in naive.items():
        assert results[key][1] == count, key
        assert results[key][0] == pytest.approx(value, abs=1e-9, nan_ok=True), key


# --- the numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_result_of_the_original_model_against_loops(scale: str, seed: int) -> None:
    table = partitions(seed)
    embedded = random_units(table, seed)
    rows = measure(compared(table, *embedded, scale), TARGETS, None).rows
    naive = Naive(table, *embedded, scale)
    assert_same(keyed(rows), naive.results(reference=naive))


@pytest.mark.parametrize("scale", SCALES)
def test_every_result_of_an_altered_model_against_loops(scale: str) -> None:
    """With the rates at the thresholds of f*, and the distances to its retain scores."""
    table = partitions()
    original, altered = random_units(table, 3), random_units(table, 4)
    reference = reference_from(measure(compared(table, *original, scale), TARGETS, None))
    rows = measure(compared(table, *altered, scale), TARGETS, reference).rows
    assert_same(keyed(rows), Naive(table, *altered, scale).results(reference=Naive(table, *original, scale)))


def test_original_model_has_no_footprint_and_its_own_thresholds_are_the_fixed_ones() -> None:
    table = partitions()
    results = keyed(measure(compared(table, *random_units(table, 1), "S2"), TARGETS, None).rows)
    assert results["1:1", "R", None, "footprint"][0] == 0
    for (task, group, point, metric), value in results.items():
        if metric.endswith("_fixed"):
            assert value == results[task, group, point, metric.removesuffix("_fixed")]


def test_results_of_the_groups_differ_at_the_two_scales_only_where_forget_images_take_part() -> None:
    table = partitions()
    embedded = random_units(table, 1)
    small, large = (keyed(measure(compared(table, *embedded, scale), TARGETS, None).rows) for scale in ("S1", "S2"))
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
    scores = compared(table, np.eye(len(rows)), rows, scale)
    assert not scores.development.scores.any()
    groups: list[tuple[str, Any]] = [*scores.mated.items(), *scores.nonmated.items(), *scores.alarms.items()]
    for group, compared_ in groups:
        assert len(compared_.scores), group
        assert not compared_.scores.any(), group
    for group, searches in scores.searches.items():
        assert len(searches.own), group
        assert not searches.own.any(), group
        assert not searches.best.any(), group


def test_evaluation_at_the_small_scale_does_not_see_identities_of_the_large_one() -> None:
    table = partitions()
    units, rows = random_units(table, 1)
    outside = table["scale"][rows] == "S2"
    assert outside.any()
    moved = units.copy()
    moved[outside] = random_units(table, 2)[0][outside]
    before, after = (keyed(measure(compared(table, u, rows, "S1"), TARGETS, None).rows) for u in (units, moved))
    for key in before:
        assert before[key] == pytest.approx(after[key], nan_ok=True), key
    large = [keyed(measure(compared(table, u, rows, "S2"), TARGETS, None).rows) for u in (units, moved)]
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
    assert_same(keyed(measure(scores, TARGETS, None).rows), naive.results(reference=naive))


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
    assert_same(keyed(measure(scores, TARGETS, None).rows), naive.results(reference=naive))


def test_probe_without_a_template_in_the_gallery_is_no_mated_search() -> None:
    table = partitions()
    person = forget_identities(table)[0]
    table = with_roles(table, {person}, "eval")
    embedded = random_units(table, 1)
    scores = compared(table, *embedded, "S2")
    evaluated = (table["role"] == "eval") & (table["partition"] == "F")
    assert len(scores.searches["Ftr"].own) == int((evaluated & (table["identity"] != person)).sum())
    naive = Naive(table, *embedded, "S2")
    assert_same(keyed(measure(scores, TARGETS, None).rows), naive.results(reference=naive))


def test_group_without_a_comparison_has_no_rate_and_a_count_of_zero() -> None:
    """All forget identities too small to split: no forget-eval image anywhere."""
    table = partitions()
    table = with_roles(table, set(forget_identities(table)), "train")
    embedded = random_units(table, 1)
    results = keyed(measure(compared(table, *embedded, "S2"), TARGETS, None).rows)
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
    results = keyed(measure(compared(table, *embedded, "S2"), TARGETS, None).rows)
    assert_same(results, naive.results(reference=naive))


def test_collapsed_model_identifies_and_verifies_nobody() -> None:
    """One embedding for every image: all scores tie, so no threshold lets a mated pair in and a non-mated one not."""
    table = partitions()
    rows = Partitions(table, SCALES).evaluated()
    for seed in range(5):
        vector = np.random.default_rng(seed).normal(size=DIM)
        units = np.tile(vector / np.linalg.norm(vector), (len(rows), 1))
        results = keyed(measure(compared(table, units, rows, "S2"), TARGETS, None).rows)
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
    read: list[Any] = [tuple(row.values()) for row in Table.read(tmp_path / "results.parquet").rows()]
    assert_equal(read, found.rows)
    assert json.loads((tmp_path / "warnings.json").read_text()) == found.warnings
    reference = reference_of(tmp_path)
    for sample, values in ((reference.mated, scores.mated["R"]), (reference.nonmated, scores.nonmated["R"])):
        assert np.array_equal(np.repeat(sample.values, sample.counts), np.sort(values.scores))
        assert sample.error == 0
    own = {(t, g, p): value for t, g, p, metric, value, *_ in found.rows if metric == "threshold"}
    assert reference.thresholds == own


def test_curves_agree_with_the_single_operating_points(tmp_path: Path) -> None:
    scores, _ = written(tmp_path)
    curves = Table.read(tmp_path / "curves.parquet").rows()
    assert {row["group"] for row in curves if row["task"] == "1:1"} == set(scores.mated)
    assert {row["group"] for row in curves if row["task"] == "1:N"} == set(scores.searches)
    for row in curves:
        group = row["group"]
        if row["task"] == "1:1":
            calibration = scores.development.scores
            rate = acceptance_rate(scores.mated[group].scores, row["threshold"])
        else:
            calibration = scores.alarms["Dev" if group == "Fev" else "D"].scores
            rate = true_positive_rate(scores.searches[group].own, scores.searches[group].best, row["threshold"])
        assert row["threshold"] == threshold_at(calibration, row["target"])
        assert row["attained"] == acceptance_rate(calibration, row["threshold"]) <= row["target"]
        assert row["rate"] == rate


# --- intervals -------------------------------------------------------------------------------------------------------


def assert_equal(rows: list[Row], others: list[Row]) -> None:
    """All eleven columns, and no number for no number."""
    assert [row[:4] for row in rows if row[2] == row[2]] == [row[:4] for row in others if row[2] == row[2]]
    assert len(rows) == len(others)
    for row, other in zip(rows, others, strict=True):
        assert row[:2] == other[:2]
        assert row[3] == other[3]
        assert np.array_equal(np.array(row[4:], float), np.array(other[4:], float), equal_nan=True), row


def test_intervals_stand_beside_rates_and_nowhere_else() -> None:
    table = partitions()
    rows = measure(compared(table, *random_units(table, 1), "S2"), TARGETS, None, replicates=60).rows
    resampled = ("TMR", "FMR", "TPIR", "weakly_forgotten")
    for task, group, point, metric, value, count, subjects, low, high, wilson_low, wilson_high in rows:
        if metric in ("threshold", "W1", "deformation", "footprint", "EER"):
            assert all(math.isnan(end) for end in (low, high, wilson_low, wilson_high))
            continue
        assert wilson_low <= value <= wilson_high
        if metric.removesuffix("_fixed") in resampled and group != "D":
            assert 0 < subjects <= count
            assert 0 <= low <= high <= 1, (task, group, point, metric)
        else:
            assert math.isnan(low)
            assert math.isnan(high)


def test_subjects_are_the_people_behind_a_rate() -> None:
    table = partitions()
    rows = measure(compared(table, *random_units(table, 1), "S2"), TARGETS, None).rows
    people = {(task, group): subjects for task, group, _, _, _, _, subjects, *_ in rows if subjects}
    kept = Naive(table, *random_units(table, 1), "S2")
    assert people["1:1", "T"] == len(kept.of("T"))
    assert people["1:1", "FtrxFtr"] == len(kept.of("F train"))
    assert people["1:N", "Ftr"] == len(kept.of("F eval"))


def test_replicates_change_no_number_but_the_intervals() -> None:
    table = partitions()
    scores = compared(table, *random_units(table, 1), "S2")
    without, with_ = (measure(scores, TARGETS, None, replicates).rows for replicates in (0, 10))
    assert_same(keyed(with_), keyed(without))
    assert all(math.isnan(row[7]) and math.isnan(row[8]) for row in without)
    again = measure(compared(table, *random_units(table, 1), "S2"), TARGETS, None, 10).rows
    assert_equal(again, with_)


def test_collapsed_model_has_intervals_of_no_width() -> None:
    table = partitions()
    rows = Partitions(table, SCALES).evaluated()
    units = np.tile(np.full(4, 0.5), (len(rows), 1))
    for row in measure(compared(table, units, rows, "S2"), TARGETS, None, replicates=10).rows:
        if row[3] in ("TMR", "FMR", "TPIR") and row[1] != "D":
            assert row[7:9] == (0.0, 0.0)


# --- held and scanned ------------------------------------------------------------------------------------------------


def test_scanned_evaluation_is_the_held_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds, counts, rates and intervals are equal; distances and equal errors are known to within a bin."""
    table = partitions()
    scores = compared(table, *random_units(table, 1), "S2")
    held = measure(scores, TARGETS, None, replicates=20)
    monkeypatch.setattr(nonmated, "HELD", 0)
    scanned = measure(compared(table, *random_units(table, 1), "S2"), TARGETS, None, replicates=20)
    binned = ("W1", "deformation", "footprint", "EER")
    assert_equal(
        [row for row in scanned.rows if row[3] not in binned], [row for row in held.rows if row[3] not in binned]
    )
    for row, other in zip(scanned.rows, held.rows, strict=True):
        assert row[5] == other[5]
        assert row[4] == pytest.approx(other[4], abs=2e-6, nan_ok=True)
    assert scanned.warnings == held.warnings
    for group, spread in scanned.spreads.items():
        assert spread.accepted == held.spreads[group].accepted, group


def test_one_development_identity_has_no_threshold() -> None:
    table = partitions()
    units, rows = random_units(table, 1)
    names = table["identity"].copy()
    names[table["partition"] == "D"] = "somebody"
    with pytest.raises(DamnatioError, match="development"):
        measure(compared(table.with_columns(identity=names), units, rows, "S2"), TARGETS, None)
