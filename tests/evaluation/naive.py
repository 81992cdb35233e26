"""The protocol of docs/protocol.md a second time: Python loops over single images, and every result from them."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.scanning import on_grid
from damnatio.support.tables import Table

Vector = NDArray[np.float64]
Key = tuple[str, str, float | None, str]
Results = dict[Key, tuple[float, int]]
"""by task, group, operating point and metric: value and count"""
TARGETS = (0.01, 0.1)


def dot(a: Vector, b: Vector) -> float:
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def template(vectors: list[Vector]) -> Vector:
    mean = sum(vectors, np.zeros(len(vectors[0]))) / len(vectors)
    return on_grid(mean / math.sqrt(dot(mean, mean)))


def naive_threshold(scores: list[float], target: float) -> float:
    candidates = [*scores, math.nextafter(max(scores), math.inf)]
    return min(c for c in candidates if sum(s >= c for s in scores) / len(scores) <= target)


def naive_equal_error(mated: list[float], nonmated: list[float]) -> tuple[float, float]:
    """The rate and the lowest threshold."""
    candidates = sorted({*mated, *nonmated, math.nextafter(max([*mated, *nonmated]), math.inf)})
    rates = [
        (Fraction(sum(s < c for s in mated), len(mated)), Fraction(sum(s >= c for s in nonmated), len(nonmated)))
        for c in candidates
    ]
    (missed, false), threshold = min(
        zip(rates, candidates, strict=True), key=lambda found: abs(found[0][0] - found[0][1])
    )
    return float(missed + false) / 2, threshold


def share(successes: list[bool]) -> float:
    return sum(successes) / len(successes) if successes else math.nan


def person_mean(successes: list[tuple[str, bool]]) -> tuple[float, int]:
    """The mean over people of their own shares, and how many people there are."""
    people = {name for name, _ in successes}
    shares = [share([yes for name, yes in successes if name == person]) for person in people]
    return (sum(shares) / len(shares) if shares else math.nan), len(people)


def naive_w1(a: list[float], b: list[float]) -> float:
    if not a or not b:
        return math.nan
    places = sorted([*a, *b])
    area = 0.0
    for left, right in pairwise(places):
        area += (right - left) * abs(sum(x <= left for x in a) / len(a) - sum(x <= left for x in b) / len(b))
    return area


class Naive:
    """All comparisons at one scale, one image at a time."""

    def __init__(self, table: Table, units: Vector, rows: NDArray[np.int64], scale: str) -> None:
        of_row = {int(row): unit for row, unit in zip(rows, on_grid(units), strict=True)}
        self.stored = {int(row): unit for row, unit in zip(rows, units, strict=True)}
        inside = {"S1"} if scale == "S1" else {"S1", "S2"}
        self.sets: dict[str, dict[str, list[Vector]]] = {}
        self.drifting: dict[str, list[int]] = {}
        for row in table.rows():
            part, role, name = row["partition"], row["role"], row["identity"]
            if row["bystander"] or (part == "F" and role in ("train", "eval") and row["scale"] not in inside):
                self._add("B", name, of_row[row["row"]])
                self.drifting.setdefault("B", []).append(row["row"])
            if part == "T" or row["control"]:
                self.drifting.setdefault(part, []).append(row["row"])
            if part == "F" and role in ("train", "eval") and row["scale"] in inside:
                for group in ("F", "Ftr" if role == "train" else "Fev"):
                    self.drifting.setdefault(group, []).append(row["row"])
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
            "T single": self._pairs_within("T"),
        }
        if "B" in self.sets:
            self.mated["B"] = self._pairs_within("B")
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

    def searches(self, group: str, star: "Naive | None" = None) -> list[tuple[str, float, float]]:
        """Name, own score and best other score of each search: in the model's own gallery, or in that of f*."""
        gallery = (star or self).gallery("F eval" if group == "Fev" else "F train")
        found = []
        for name, probes in self.of({"R": "R probe", "T": "T probe"}.get(group, "F eval")).items():
            for place, probe in enumerate(probes):
                if group == "Fev":
                    others = [image for i, image in enumerate(probes) if i != place]
                    own = template(others) if others else None
                else:
                    own = gallery.get(name)
                if own is not None:
                    found.append((name, *self.search(probe, name, gallery, own)))
        return found

    def alarms(self, forget: str, star: "Naive | None" = None) -> list[float]:
        gallery = (star or self).gallery(forget)
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
                    won = [(name, mine >= limit and mine > other) for name, mine, other in self.searches(group)]
                    results["1:N", group, target, f"TPIR{suffix}"] = share([yes for _, yes in won]), len(won)
                    if group in ("R", "T") and not suffix:
                        results["1:N", group, target, "TPIR_person"] = person_mean(won)
            threshold = own["1:1", "D", target]
            for group, pairs in self.mated.items():
                linked = [(name, score >= threshold) for name, score in pairs]
                results["1:1", group, target, "TMR_person"] = person_mean(linked)
            results |= self._weakly_forgotten(threshold, target)
        results |= self._distances(reference) | self._shapes()
        marked = naive_threshold(self.nonmated["D"], 0.001)
        results["1:1", "D", None, "threshold_0.001"] = marked, len(self.nonmated["D"])
        results |= self._reached("above_0.001", marked)
        if reference is not self:
            results |= self._legacy(reference) | self._drift(reference)
        return results

    # --- templates of f*, probes of f -------------------------------------------------------------------------------

    def _legacy(self, star: "Naive") -> Results:
        mated = {
            "R": self._old_templates(star, "R enrol", "R probe"),
            "T": self._old_templates(star, "T enrol", "T probe"),
            "T single": self._old_and_new(star, "T"),
            "Ftr-Ftr": self._old_and_new(star, "F train"),
            "Ftr-Fev": [
                dot(old, new)
                for name, images in star.of("F train").items()
                for old in images
                for new in self.of("F eval").get(name, [])
            ],
            "avg(Ftr)-Fev": self._old_templates(star, "F train", "F eval"),
        }
        if "B" in self.sets:
            mated["B"] = self._old_and_new(star, "B")
        nonmated = [
            dot(template(images), probe)
            for name, images in star.of("T enrol").items()
            for other, probes in self.of("T probe").items()
            if other != name
            for probe in probes
        ]
        alarms = self.alarms("F train", star)
        results: Results = {}
        for target in TARGETS:
            threshold, limit = (star.thresholds()[task, "D", target] for task in ("1:1", "1:N"))
            for group, scores in mated.items():
                results["1:1", group, target, "TMR_legacy"] = share([s >= threshold for s in scores]), len(scores)
            results["1:1", "TxT", target, "FMR_legacy"] = share([s >= threshold for s in nonmated]), len(nonmated)
            for group in ("R", "T", "Ftr"):
                won = [mine >= limit and mine > other for _, mine, other in self.searches(group, star)]
                results["1:N", group, target, "TPIR_legacy"] = share(won), len(won)
            results["1:N", "D", target, "FPIR_legacy"] = share([s >= limit for s in alarms]), len(alarms)
        return results

    def _old_templates(self, star: "Naive", enrolled: str, probes: str) -> list[float]:
        return [
            dot(template(images), probe)
            for name, images in star.of(enrolled).items()
            for probe in self.of(probes).get(name, [])
        ]

    def _old_and_new(self, star: "Naive", group: str) -> list[float]:
        """Either image of a pair may be the one that was enrolled."""
        scores = []
        for name, old in star.of(group).items():
            new = self.of(group)[name]
            scores += [dot(old[i], new[j]) for i in range(len(old)) for j in range(len(new)) if i != j]
        return scores

    def _drift(self, star: "Naive") -> Results:
        results: Results = {}
        for group, rows in self.drifting.items():
            pairs = [(on_grid(self.stored[row][None])[0], on_grid(star.stored[row][None])[0]) for row in rows]
            cosines = [dot(a, b) / math.sqrt(dot(a, a) * dot(b, b)) for a, b in pairs]
            same = [self.stored[row].tobytes() == star.stored[row].tobytes() for row in rows]
            results["1:1", group, None, "drift_cosine"] = sum(cosines) / len(cosines), len(cosines)
            results["1:1", group, None, "unchanged"] = share(same), len(same)
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
            people = [name for name, _ in pairs]
            chance = [(1 - target) ** people.count(name) for name in set(people)]
            mean = sum(chance) / len(chance) if chance else math.nan
            results["1:1", group, target, "weakly_forgotten_chance"] = mean, len(chance)
        results["1:1", "F", target, "linked_people"] = self._beyond_chance(groups["F"], threshold, target)
        return results

    def _beyond_chance(self, pairs: list[tuple[str, float]], threshold: float, target: float) -> tuple[float, int]:
        """Of the people with six pairs or more: those with so many links as chance gives one person in twenty."""
        linked = []
        for person in {name for name, _ in pairs}:
            scores = [score for name, score in pairs if name == person]
            n, links = len(scores), sum(score >= threshold for score in scores)
            tail = sum(math.comb(n, k) * target**k * (1 - target) ** (n - k) for k in range(links, n + 1))
            if n >= 6:
                linked.append(tail <= 0.05)
        return share(linked), len(linked)

    def _distances(self, reference: "Naive") -> Results:
        results: Results = {}
        for group in ("Ftr-Ftr", "Ftr-Fev", "Fev-Fev", "avg(Ftr)-Fev"):
            scores = [score for _, score in self.mated[group]]
            like = self.nonmated["TxT" if group == "avg(Ftr)-Fev" else "T single"]
            results["1:1", group, None, "W1"] = naive_w1(scores, like), len(scores)
            results["1:1", group, None, "W1_retain"] = naive_w1(scores, self.nonmated["RxR"]), len(scores)
        mated, before = [s for _, s in self.mated["R"]], [s for _, s in reference.mated["R"]]
        moved = naive_w1(mated, before), naive_w1(self.nonmated["RxR"], reference.nonmated["RxR"])
        counts = len(mated), len(self.nonmated["RxR"])
        results["1:1", "R", None, "deformation"] = moved[0], counts[0]
        results["1:1", "RxR", None, "deformation"] = moved[1], counts[1]
        results["1:1", "R", None, "footprint"] = sum(moved), sum(counts)
        for group in ("R", "T"):
            own = [score for _, score in self.mated[group]]
            rate, crossing = naive_equal_error(own, self.nonmated[f"{group}x{group}"])
            results["1:1", group, None, "EER"] = rate, len(own)
            if group == "R":
                results["1:1", "R", None, "threshold_eer"] = crossing, len(own)
                results |= self._reached("TMR_eer", crossing)
        return results

    def _reached(self, metric: str, threshold: float) -> Results:
        return {
            ("1:1", group, None, metric): (share([score >= threshold for _, score in pairs]), len(pairs))
            for group, pairs in self.mated.items()
        }

    def _shapes(self) -> Results:
        results: Results = {}
        for group, pairs in self.mated.items():
            scores = sorted(score for _, score in pairs)
            mean = math.fsum(scores) / len(scores) if scores else math.nan
            spread = math.fsum((score - mean) ** 2 for score in scores) / len(scores) if scores else math.nan
            enough = [s for place, s in enumerate(scores) if (place + 1) / len(scores) >= 0.001]
            results["1:1", group, None, "std"] = math.sqrt(spread), len(scores)
            results["1:1", group, None, "quantile_0.001"] = (enough[0] if enough else math.nan), len(scores)
        return results
