"""Which rule of drawing forget identities gives the counts of the paper's Table II?

WebFace4M is not at hand. Known: its size, and that an identity has at least three images. So a family of distributions
stands in for its numbers of images per identity, with the mean fixed and the spread free. For each rule the spread is
chosen that fits the counts best, and the misfit is a chi-square: how far the counts of Table II lie from those that the
rule expects, in the covariance of such draws.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

Array = NDArray[np.float64]

IDENTITIES, IMAGES = 205_990, 4_200_000
"""of WebFace4M (IV-A)"""
LEAST, MOST = 3, 800
"""images of an identity: the least is WebFace260M's, the most is ours"""
PROBES = {"R": 10_488, "T": 10_645}
"""of the 2,000 identities of the retain control and the test set, which have four images or more (Table II)"""
SCALES = {
    "S1": {"identities": 1_000, "eval": 6_289, "ev-ev": 33_917, "tr-tr": 578_928},
    "S2": {"identities": 5_000, "eval": 30_934, "ev-ev": 161_133, "tr-tr": 2_760_850},
}
"""Table II; `eval` is its column tr->ev"""
COUNTS = ("eval", "ev-ev", "tr-tr")

Family = Callable[[float], Array]
"""the probability of each number of images from `LEAST` to `MOST`, by the spread"""
NUMBERS = np.arange(LEAST, MOST + 1)


def _cells(distribution: Callable[[Array, float], Array]) -> Array:
    """A continuous distribution cut into whole numbers, with its location set so that the mean is WebFace4M's."""

    def cells(location: float) -> Array:
        edges = np.arange(LEAST - 0.5, MOST + 1)
        found = np.diff(distribution(edges, location))
        return np.asarray(found / found.sum())

    def off(location: float) -> float:
        return float(cells(location) @ NUMBERS) - IMAGES / IDENTITIES

    return cells(optimize.brentq(off, 0, 5))


@cache
def log_normal(spread: float) -> Array:
    return _cells(lambda x, at: stats.lognorm.cdf(x, spread, scale=np.exp(at)))


@cache
def weibull(spread: float) -> Array:
    """Of shape 1/spread; the exponential distribution at 1."""
    return _cells(lambda x, at: stats.weibull_min.cdf(x - LEAST + 0.5, 1 / spread, scale=np.exp(at)))


@cache
def log_logistic(spread: float) -> Array:
    """A power law in its tail."""
    return _cells(lambda x, at: stats.fisk.cdf(x, 1 / spread, scale=np.exp(at)))


FAMILIES: dict[str, tuple[Family, tuple[float, float]]] = {
    "log-normal": (log_normal, (0.45, 1.5)),
    "Weibull": (weibull, (0.6, 2.2)),
    "log-logistic": (log_logistic, (0.25, 0.6)),
}
"""with the spreads to look among"""


@dataclass(frozen=True)
class Kept:
    """What is left of an identity's images, one per capture instance: each image but one is kept with a probability.
    If it is uneven, each identity has its own, of a beta distribution with two parameters that add up to `UNEVEN`: so
    some people are seen at few moments."""

    share: float
    uneven: bool = False

    def __str__(self) -> str:
        return f"{self.share:g}{', uneven' * self.uneven}"


UNEVEN = 4.0


@cache
def _kept(kept: Kept) -> Array:
    """[images, kept]: the probability that so many are left of so many images."""
    table = np.zeros((len(NUMBERS), MOST + 1))
    a, b = UNEVEN * kept.share, UNEVEN * (1 - kept.share)
    for row, images in enumerate(NUMBERS):
        left = np.arange(images)
        chances = stats.betabinom(images - 1, a, b) if kept.uneven else stats.binom(images - 1, kept.share)
        table[row, 1 : images + 1] = chances.pmf(left)
    return table


def nearest(kept: Array) -> Array:
    return np.rint(0.2 * kept)


ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "nearest": nearest,
    "down": lambda kept: np.floor(0.2 * kept + 1e-9),
    "up": lambda kept: np.ceil(0.2 * kept - 1e-9),
}
"""eval images of so many images kept"""


@dataclass(frozen=True)
class Rule:
    """Who may be forgotten: whoever has `least` images or capture instances, or anybody in proportion to the images."""

    counts: str
    least: int

    def __str__(self) -> str:
        if self.counts == "weighted":
            return "in proportion to the number of images"
        return f"at least {self.least} {'images' if self.counts == 'images' else 'capture instances'}"

    def chances(self, population: Array, kept: Kept) -> Array:
        """The probability of each number of images kept, of an identity that is drawn."""
        if self.counts == "weighted":
            population = population * NUMBERS
        elif self.counts == "images":
            population = population * (self.least <= NUMBERS)
        chances = population @ _kept(kept)
        if self.counts == "instances":
            chances = chances * (np.arange(MOST + 1) >= self.least)
        return np.asarray(chances / chances.sum())


@dataclass(frozen=True)
class Expected:
    """Of one forget identity: means and covariance of its counts, and the chance that it has no eval image."""

    means: Array
    covariance: Array
    train_only: float
    kept: float


def expected(chances: Array, rounding: Callable[[Array], Array] = nearest) -> Expected:
    kept = np.arange(MOST + 1, dtype=float)
    held_out = np.clip(np.minimum(rounding(kept), kept - 1), 0, None)
    train = kept - held_out
    values = np.stack([held_out, held_out * (held_out - 1) / 2, train * (train - 1) / 2])
    means = values @ chances
    covariance = (values * chances) @ values.T - np.outer(means, means)
    return Expected(means, covariance, float(chances[1:] @ (held_out == 0)[1:]), float(chances @ kept))


def _probes() -> float:
    return sum(PROBES.values()) / 2_000


def probes(population: Array) -> tuple[float, float]:
    """Mean and variance of the probes of an identity with four images or more: the second half, and the odd one."""
    chances = population * (NUMBERS >= 4)
    chances = chances / chances.sum()
    halves = np.ceil(NUMBERS / 2)
    mean = float(chances @ halves)
    return mean, float(chances @ np.square(halves)) - mean**2


@dataclass(frozen=True)
class Fit:
    family: str
    kept: Kept
    rule: Rule
    spread: float
    misfit: float
    """chi-square of four counts: those of S2, and the probes of control and test; one spread was fitted"""
    expected: Expected
    probes: float


def misfit(population: Array, found: Expected) -> float:
    """Of the counts of S2, which holds S1, and of the probes."""
    table = SCALES["S2"]
    off = np.array([table[name] for name in COUNTS]) / table["identities"] - found.means
    mean, variance = probes(population)
    return float(
        off @ np.linalg.solve(found.covariance / table["identities"], off)
        + (_probes() - mean) ** 2 / (variance / 2_000)
    )


def fit(family: str, kept: Kept, rule: Rule, rounding: Callable[[Array], Array] = nearest) -> Fit:
    """The spread under which the rule explains Table II best."""
    make, bounds = FAMILIES[family]

    def off(spread: float) -> float:
        population = make(spread)
        return misfit(population, expected(rule.chances(population, kept), rounding))

    grid = np.linspace(*bounds, 25)
    start = int(np.argmin([off(spread) for spread in grid]))
    around = grid[max(start - 1, 0)], grid[min(start + 1, len(grid) - 1)]
    spread = float(optimize.minimize_scalar(off, bounds=around, method="bounded", options={"xatol": 1e-4}).x)
    population = make(spread)
    found = expected(rule.chances(population, kept), rounding)
    return Fit(family, kept, rule, spread, misfit(population, found), found, probes(population)[0])


LEAST_TRIED = tuple(range(4, 26))
CHOSEN = 15
"""`partitions.forget_min_images` of the paper's recipes"""
ENOUGH = 11.0
"""a misfit that has a chance of 1 in 100"""
KEPT = (Kept(1.0), Kept(0.9), Kept(0.8), Kept(0.9, uneven=True), Kept(0.8, uneven=True))


def best(counts: str, kept: Kept, family: str) -> Fit:
    tried = (0,) if counts == "weighted" else LEAST_TRIED
    return min((fit(family, kept, Rule(counts, least)) for least in tried), key=lambda one: one.misfit)


def pages() -> Iterator[str]:
    yield (
        "Made by `python benchmarks/fidelity table-two`. WebFace4M is not at hand: the numbers of images per "
        f"identity are those of a family of distributions with the mean {IMAGES / IDENTITIES:.1f} and at least {LEAST} "
        "images, whose spread is fitted. Kept: the share of images that are left, one per capture instance; uneven: "
        "each identity has a share of its own, around that mean. Misfit: chi-square of the three forget counts of S2 "
        "and of the probes of R and T, four numbers, with one spread fitted; about 3 is what "
        "chance gives, and above 11 has a chance of 1 in 100.\n"
    )
    yield "### Which rule\n"
    yield (
        "The best minimum of each rule.\n\n| rule | family | kept | best | misfit | eval | ev-ev | tr-tr | "
        "R and T probes | images kept | train only, of 1,000 |\n" + _line(["---"] * 11)
    )
    names = {"images": "minimum of images", "instances": "minimum of capture instances", "weighted": "weighted"}
    chosen: list[Fit] = []
    for counts, name in names.items():
        for family in FAMILIES:
            for kept in KEPT:
                found = best(counts, kept, family)
                chosen.append(found)
                yield _line([name, family, str(kept), str(found.rule), *_numbers(found)])
    table = SCALES["S2"]
    said = [f"{table[name]:,}" for name in COUNTS]
    yield _line(["**the paper, S2**", "", "", "", "", *said, f"{_probes():.2f}", "", "some"])
    yield "\n### Which minimum of images\n"
    yield "Misfit by the minimum, at the best spread of each.\n"
    yield _line(["family", "kept", *map(str, LEAST_TRIED)])
    yield _line(["---"] * (len(LEAST_TRIED) + 2))
    for family in FAMILIES:
        for kept in KEPT:
            cells = [fit(family, kept, Rule("images", least)).misfit for least in LEAST_TRIED]
            yield _line([family, str(kept), *(f"{cell:.0f}" if cell < 1e4 else ">9,999" for cell in cells)])
    yield ""
    yield "### S1 under the same fits\n"
    yield "S1 is the first fifth of S2. Deviations of its counts from those expected of 1,000 such identities.\n"
    yield _line(["rule", "family", "kept", "eval 6,289", "ev-ev 33,917", "tr-tr 578,928"])
    yield _line(["---"] * 6)
    for found in sorted(chosen, key=lambda one: one.misfit)[:6]:
        size = SCALES["S1"]["identities"]
        off = np.array([SCALES["S1"][name] for name in COUNTS]) - size * found.expected.means
        errors = off / np.sqrt(size * found.expected.covariance.diagonal())
        means = found.expected.means * size
        shown = [f"{mean:,.0f} ({error:+.1f} sd)" for mean, error in zip(means, errors, strict=True)]
        yield _line([str(found.rule), found.family, str(found.kept), *shown])


def summary() -> Iterator[str]:
    """What docs/fidelity.md shows."""
    fits = [fit(family, kept, Rule("images", least)) for family in FAMILIES for kept in KEPT for least in LEAST_TRIED]
    good = [one for one in fits if one.misfit < ENOUGH]
    least = [one.rule.least for one in good]
    able = {(one.family, one.kept) for one in good}
    lowest = {n: min(one.misfit for one in fits if one.rule.least == n) for n in (4, 10, CHOSEN)}
    yield (
        f"Misfit below {ENOUGH:g}, by family and share kept: minimums of {min(least)} to {max(least)} images. Of the "
        f"{len(FAMILIES) * len(KEPT)} assumptions, {len(able)} fit at some minimum, {least.count(CHOSEN)} of them at "
        f"{CHOSEN}. The least misfit of a minimum: {', '.join(f'{m:.1f} of {n}' for n, m in lowest.items())}.\n"
    )
    drawn = [fit(family, kept, Rule("weighted", 0)) for family in FAMILIES for kept in KEPT]
    yield (
        f"A draw in proportion to the number of images fits under {sum(one.misfit < ENOUGH for one in drawn)} of the "
        f"{len(drawn)} assumptions.\n"
    )
    yield _line(["0.2 n is rounded", "family", "best minimum", "misfit", "eval", "ev-ev", "tr-tr", "tr-tr per ev-ev"])
    yield _line(["---"] * 8)
    for name, rounding in ROUNDINGS.items():
        for family in FAMILIES:
            found = min(
                (fit(family, Kept(0.9), Rule("images", n), rounding) for n in LEAST_TRIED), key=lambda one: one.misfit
            )
            counts = found.expected.means * SCALES["S2"]["identities"]
            cells = [f"{found.misfit:.1f}", *(f"{count:,.0f}" for count in counts), f"{counts[2] / counts[1]:.2f}"]
            yield _line([name, family, str(found.rule.least), *cells])
    said = [f"{SCALES['S2'][name]:,}" for name in COUNTS]
    ratios = ", ".join(f"{table['tr-tr'] / table['ev-ev']:.2f} ({scale})" for scale, table in SCALES.items())
    yield _line(["**the paper, S2**", "", "", "", *said, ratios])


def _numbers(found: Fit) -> list[str]:
    counts = found.expected.means * SCALES["S2"]["identities"]
    misfit_shown = f"{found.misfit:.1f}" if found.misfit < 1e4 else ">9,999"
    ends = [f"{found.probes:.2f}", f"{found.expected.kept:.1f}", f"{1_000 * found.expected.train_only:.2f}"]
    return [misfit_shown, *(f"{count:,.0f}" for count in counts), *ends]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
