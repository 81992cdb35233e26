"""Thresholds from a scan of all pairs, against all scores held and sorted."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from damnatio.evaluation import scanning
from damnatio.evaluation.scanning import Kind, Scores, Units, nonmated_count, on_grid
from damnatio.evaluation.tails import Tail, scan, scan_tail, tail, window, zoom
from damnatio.evaluation.tails.cells import Counts
from damnatio.evaluation.thinning import Thinned
from damnatio.metrics.verification import Calibration, calibrate
from damnatio.support.tables import Codes

KINDS: tuple[Kind, ...] = ("float64", "float32", "bfloat16", "int8")
TARGETS = (0.001, 0.01, 0.1, 0.3, 0.9)
RATES = (0.003, 0.02, 0.1, 0.25, 0.5)


def unit(rows: Units) -> Units:
    return on_grid(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def spread_out(seed: int, people: int = 30, each: int = 4, dim: int = 8) -> tuple[Units, Codes]:
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(people) * 2, each))
    return unit(rng.normal(size=(len(codes), dim))), codes


def tied(seed: int) -> tuple[Units, Codes]:
    """A few directions shared by all: a few hundred pairs a score."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, (90, 3))
    rows[~rows.any(axis=1)] = 1
    return unit(rows.astype(np.float64)), rng.integers(0, 25, 90)


def near_tied(seed: int) -> tuple[Units, Codes]:
    """Vectors a few steps of the grid apart: thousands of different scores within the bound of every narrow type."""
    rng = np.random.default_rng(seed)
    centre = unit(rng.normal(size=(1, 6)))
    return centre + rng.integers(-4, 5, (80, 6)) * scanning.GRID, rng.integers(0, 40, 80)


def collapsed(_: int) -> tuple[Units, Codes]:
    return np.tile(unit(np.array([[1.0, 2.0, 3.0]])), (60, 1)), np.arange(60) // 2


def opposite(seed: int) -> tuple[Units, Codes]:
    """Half of the vectors are the others turned round: scores lie at -1, and their narrow copies past it."""
    units, _ = spread_out(seed, people=20, each=1, dim=7)
    return np.concatenate([units, -units]), np.arange(40)


def two_clumps(seed: int) -> tuple[Units, Codes]:
    """A heap of ties, then nothing for a long way, then a few scores near 1."""
    codes = np.concatenate([np.arange(6), np.arange(6, 66)])
    rows = np.eye(70)[codes]
    rows[:6, 69] = 5 + np.random.default_rng(seed).random(6)
    return unit(rows), codes


World = Callable[[int], tuple[Units, Codes]]
WORLDS: list[World] = [spread_out, tied, near_tied, collapsed, opposite, two_clumps]


def all_scores(units: Units, codes: Codes) -> Scores:
    i, j = np.triu_indices(len(codes), 1)
    i, j = i[codes[i] != codes[j]], j[codes[i] != codes[j]]
    return np.asarray((units[i] * units[j]).sum(axis=1))


def assert_exact(units: Units, codes: Codes, kind: Kind) -> Tail:
    scores = all_scores(units, codes)
    found = scan_tail(units, codes, TARGETS, RATES, kind)
    assert found.pairs == len(scores)
    assert found.calibrations == calibrate(scores, TARGETS)
    for point in found.curve:
        assert point == Calibration(point.target, point.threshold, int((scores >= point.threshold).sum()), len(scores))
    for target, thinned in found.samples.items():
        assert thinned.share == 1
        listed = {frozenset(pair) for pair in zip(thinned.i.tolist(), thinned.j.tolist(), strict=True)}
        assert len(listed) == len(thinned.i)
        assert (codes[thinned.i] != codes[thinned.j]).all()
        (point,) = calibrate(scores, [target])
        scored = (units[thinned.i] * units[thinned.j]).sum(axis=1)
        assert (scored >= point.threshold).sum() == point.accepted
    return found


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_thresholds_are_those_of_all_scores(world: World, kind: Kind, seed: int) -> None:
    assert_exact(*world(seed), kind)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cap", [0, 300])
def test_little_memory_takes_more_passes_to_the_same_thresholds(
    world: World, kind: Kind, cap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "CAP", cap)
    monkeypatch.setattr(tail, "PILOT", 30)
    monkeypatch.setattr(scanning, "ROWS", 16)
    assert_exact(*world(2), kind)


HIGH = (0.002, 0.01)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("kind", KINDS[2:])
@pytest.mark.parametrize("heap", [0, 4, 10**9])
def test_sieve_changes_no_threshold(world: World, kind: Kind, heap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open pairs are scored one by one, by tiles where they are many, or always by tiles."""
    monkeypatch.setattr(scanning, "HEAP", heap)
    monkeypatch.setattr(scanning, "ROWS", 16)
    monkeypatch.setattr(tail, "PILOT", 60)
    units, codes = world(6)
    found = scan_tail(units, codes, HIGH, kind=kind)
    assert found.calibrations == calibrate(all_scores(units, codes), HIGH)
    assert found.samples.keys() == set(HIGH)


@pytest.mark.parametrize("kind", KINDS[2:])
def test_sieve_leaves_few_pairs_to_float32(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    units, codes = spread_out(7, people=300, each=2, dim=64)
    one_by_one, made = [], []

    def counted(a: scanning.Narrow, i: Codes, b: scanning.Narrow, j: Codes) -> Scores:
        one_by_one.append(len(i))
        return scanning.listed(a, i, b, j)

    def product(a: scanning.Narrow, rows: slice, b: scanning.Narrow, columns: slice) -> torch.Tensor:
        made.append((a.kind, len(a)))
        return scanning.product(a, rows, b, columns)

    monkeypatch.setattr(scanning, "ROWS", 64)
    monkeypatch.setattr(tail, "PILOT", 400)
    monkeypatch.setattr(scan, "listed", counted)
    monkeypatch.setattr(scan, "product", product)
    found = scan_tail(units, codes, [0.001], kind=kind)
    assert found.calibrations == calibrate(all_scores(units, codes), [0.001])
    assert 0 < sum(one_by_one) < found.pairs / 50
    assert sum(kind == "float32" and count == 600 for kind, count in made) <= 5  # of 55 tiles


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("taken", [0, 1, 2])
def test_trial_of_kinds_leaves_no_pair_out(world: World, taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(
        kinds: list[Kind], prepare: Callable[[Kind], None], run: Callable[[Kind, int, int], None], n: int, _: int
    ) -> tuple[Kind, int]:
        for k, kind in enumerate(kinds):
            prepare(kind)
            run(kind, k, k + 1)
        return kinds[min(taken, len(kinds) - 1)], len(kinds)

    monkeypatch.setattr(scan, "trial", chosen)
    monkeypatch.setattr(tail, "PAIRS", 0)
    monkeypatch.setattr(scan, "HEAP", 0)  # every kind is promising
    monkeypatch.setattr(scan, "sieves", lambda _: ["int8", "bfloat16"])
    monkeypatch.setattr(scanning, "ROWS", 8)
    units, codes = world(8)
    scores = all_scores(units, codes)
    assert scan_tail(units, codes, HIGH).calibrations == calibrate(scores, HIGH)


@pytest.mark.parametrize(
    ("targets", "rates", "expected"),
    [
        ((0.001,), (), ["float32", "int8", "bfloat16"]),
        ((0.001, 0.02), (), ["float32"]),  # the sample around 0.02 reaches down to 0.08 of all pairs
        ((0.001,), (0.1,), ["float32"]),
    ],
)
def test_kinds_that_would_leave_a_heap_open_are_not_tried(
    targets: tuple[float, ...], rates: tuple[float, ...], expected: list[Kind], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[list[Kind]] = []
    run = scan.Scan.run

    def noted(one: scan.Scan, title: str, kinds: list[Kind] | None = None) -> Kind:
        if kinds is not None:
            tried.append(list(kinds))
        return run(one, title, ["float32"])

    monkeypatch.setattr(scan.Scan, "run", noted)
    monkeypatch.setattr(tail, "PAIRS", 0)
    monkeypatch.setattr(scan, "sieves", lambda _: ["int8", "bfloat16"])
    units, codes = spread_out(9, people=200, each=2, dim=64)
    scan_tail(units, codes, targets, rates)
    assert tried[0] == expected


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often a scan narrows down what it keeps, and how often it zooms."""
    taken = {"narrowed": 0, "zoomed": 0}
    narrow_down, zoom_in = window.Window.narrow_down, zoom.zoom

    def narrowed(kept: window.Window, seen: Counts) -> None:
        taken["narrowed"] += 1
        narrow_down(kept, seen)
        assert kept.size <= window.CAP

    def zoomed(units: Units, codes: Codes, allowed: int) -> tuple[float, int]:
        taken["zoomed"] += 1
        return zoom_in(units, codes, allowed)

    monkeypatch.setattr(window.Window, "narrow_down", narrowed)
    monkeypatch.setattr(tail, "zoom", zoomed)
    return taken


def test_narrowing_alone_can_suffice(steps: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "CAP", 2000)
    monkeypatch.setattr(scanning, "ROWS", 16)
    units, codes = spread_out(3, people=60)
    scores = all_scores(units, codes)
    found = scan_tail(units, codes, [0.1], kind="float32")
    assert found.calibrations == calibrate(scores, [0.1])
    assert found.passes == 1
    assert steps["narrowed"] > 0
    assert steps["zoomed"] == 0


def test_second_pass_answers_what_the_first_kept_too_little_for(
    steps: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The curve is still that of the first pass, which counts further down."""
    monkeypatch.setattr(window, "CAP", 100)
    monkeypatch.setattr(tail, "PILOT", 60)
    monkeypatch.setattr(scanning, "ROWS", 16)
    units, codes = spread_out(4)
    scores = all_scores(units, codes)
    found = scan_tail(units, codes, [0.01, 0.1], RATES, kind="float32")
    assert found.passes == 2
    assert steps == {"narrowed": steps["narrowed"], "zoomed": 0}
    assert steps["narrowed"] > 0
    assert found.calibrations == calibrate(scores, [0.01, 0.1])
    assert found.curve
    for point in found.curve:
        assert point.accepted == int((scores >= point.threshold).sum())


def test_second_pass_finds_the_next_score_above_a_heap_of_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    """The border lies in the heap, the threshold far above it."""
    monkeypatch.setattr(window, "CAP", 2500)
    monkeypatch.setattr(tail, "WIDTH", 1e-7)
    monkeypatch.setattr(scanning, "ROWS", 16)
    units, codes = two_clumps(0)
    scores = all_scores(units, codes)
    monkeypatch.setattr(window.Window, "expect", lambda *_: None)  # the first pass keeps nothing
    found = scan_tail(units, codes, [0.5], kind="float32")
    assert found.passes == 2
    assert found.calibrations == calibrate(scores, [0.5])
    assert found.calibrations[0].accepted == 15


def test_heap_of_near_ties_is_zoomed_into_and_never_held(
    steps: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "CAP", 500)
    monkeypatch.setattr(scanning, "ROWS", 16)
    units, codes = near_tied(0)
    found = scan_tail(units, codes, [0.01, 0.1], kind="float32")
    assert steps["zoomed"] == 2
    assert found.calibrations == calibrate(all_scores(units, codes), [0.01, 0.1])


@pytest.mark.parametrize("world", WORLDS)
def test_zoom_answers_every_rank(world: World) -> None:
    units, codes = world(5)
    order = np.argsort(codes, kind="stable")
    scores = np.sort(all_scores(units, codes))[::-1]
    for allowed in [0, 1, 2, len(scores) // 3, len(scores) - 1]:
        higher = scores[scores > scores[allowed]]
        expected = (higher[-1], len(higher)) if len(higher) else (np.nextafter(scores[0], np.inf), 0)
        assert zoom.zoom(units[order], codes[order], allowed) == expected


def test_pair_above_the_window_may_hold_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The narrow product errs by its whole bound: it puts the threshold's pair above, and a better one within, the
    cells that the border lies in."""
    exact = {(0, 1): 0.5, (0, 2): 0.5 + 0.0021, (0, 3): 0.5 + 0.0058}
    narrow = {(0, 1): 0.5, (0, 2): 0.5 + 0.0041, (0, 3): 0.5 + 0.0038}
    rows = np.zeros((4, 4))
    rows[0, 0] = 1
    for (_, j), score in exact.items():
        rows[j, 0], rows[j, j] = score, -math.sqrt(1 - score**2)
    units = on_grid(rows)  # the scores of 1, 2 and 3 with each other are all about a quarter

    def wrong(*_: object) -> torch.Tensor:
        tile = torch.from_numpy(units @ units.T).float()
        for (i, j), score in narrow.items():
            tile[i, j] = tile[j, i] = score
        return tile

    monkeypatch.setattr(scan, "product", wrong)
    monkeypatch.setattr(tail, "bound", lambda *_: 0.002)
    scores = all_scores(units, np.arange(4))
    assert scan_tail(units, np.arange(4), [0.34], kind="float32").calibrations == calibrate(scores, [0.34])
    assert calibrate(scores, [0.34])[0].accepted == 2


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.integers(0, 4)), min_size=2, max_size=25),
    st.sampled_from(KINDS),
    st.integers(1, 999).map(lambda thousandths: thousandths / 1000),
    st.sampled_from([1, 10, window.CAP]),
)
def test_any_small_set(people: list[tuple[int, int, int]], kind: Kind, target: float, cap: int) -> None:
    rows = np.array([(x, y) if x or y else (1, 1) for x, y, _ in people], dtype=np.float64)
    units, codes = unit(rows), np.array([code for _, _, code in people])
    scores = all_scores(units, codes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "CAP", cap)
        patch.setattr(scanning, "ROWS", 4)
        patch.setattr(tail, "PILOT", 5)
        if not len(scores):
            with pytest.raises(ValueError, match="at least one non-mated"):
                scan_tail(units, codes, [target], kind=kind)
        else:
            assert scan_tail(units, codes, [target], kind=kind).calibrations == calibrate(scores, [target])


@pytest.mark.parametrize("rows", [1, 3, 64])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_blocks_and_threads_do_not_matter(rows: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    units, codes = near_tied(1)
    units, codes = units[:24], codes[:24]
    monkeypatch.setattr(scanning, "ROWS", rows)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert_exact(units, codes, "float32")
    finally:
        torch.set_num_threads(before)


def test_two_identities_of_one_image_have_one_pair() -> None:
    units = unit(np.array([[3.0, 4.0], [4.0, 3.0]]))
    found = scan_tail(units, np.array([7, 2]), [0.1], kind="int8")
    score = math.fsum(units[0] * units[1])
    assert found.calibrations == [Calibration(0.1, math.nextafter(score, 1), 0, 1)]


def test_one_identity_has_no_threshold() -> None:
    with pytest.raises(ValueError, match="at least one non-mated"):
        scan_tail(unit(np.ones((3, 4))), np.zeros(3, dtype=np.int64), [0.1])


def test_pairs_are_counted_without_overflow() -> None:
    assert nonmated_count(np.array([0, 0, 1, 1, 1, 5])) == 2 * 3 + 2 * 1 + 3 * 1
    assert nonmated_count(np.zeros(4, dtype=np.int64)) == 0
    assert nonmated_count(np.zeros(0, dtype=np.int64)) == 0


# --- an even share ---------------------------------------------------------------------------------------------------


def some_pairs(count: int) -> tuple[Codes, Codes]:
    i, j = np.triu_indices(count, 1)
    return i.astype(np.int64), j.astype(np.int64)


def test_few_pairs_all_stay() -> None:
    i, j = some_pairs(40)
    kept = Thinned(most=len(i))
    kept.add(i, j)
    assert kept.share == 1
    assert np.array_equal(kept.i, i)
    assert np.array_equal(kept.j, j)


@pytest.mark.parametrize("most", [1, 100, 1000])
def test_share_that_stays_is_at_most_so_many_and_regardless_of_order(most: int) -> None:
    i, j = some_pairs(150)
    order = np.random.default_rng(0).permutation(len(i))
    found = []
    for places in (np.array_split(np.arange(len(i)), 7), np.array_split(order, 31), [order]):
        kept = Thinned(most)
        for part in places:
            kept.add(i[part], j[part])
        assert len(kept.i) <= most
        found.append((kept.share, sorted(zip(kept.i.tolist(), kept.j.tolist(), strict=True))))
    assert found[0] == found[1] == found[2]


def test_share_is_even_over_the_pairs() -> None:
    """As many as the share says, overall and of each quarter of rows and columns."""
    i, j = some_pairs(1200)
    kept = Thinned(most=50_000)
    kept.add(i, j)
    assert kept.share == 1 / 16
    for part in (i // 300, j // 300, (i + j) % 4, j % 4, i % 4):
        stays = kept._stays(i, j)
        for quarter in range(4):
            expected = (part == quarter).sum() / 16
            assert abs(stays[part == quarter].sum() - expected) < 5 * math.sqrt(expected)
