"""Scores on the grid against whole numbers, narrow products against their bound, searches against brute force."""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from damnatio.evaluation import scanning, searching
from damnatio.evaluation.scanning import (
    GRID,
    Kind,
    Narrow,
    Scores,
    Sieve,
    Units,
    bound,
    dots,
    exclude,
    on_grid,
    pair_tiles,
    product,
)
from damnatio.evaluation.searching import top_two
from damnatio.support.arrays import lengths
from damnatio.support.tables import Codes

KINDS: tuple[Kind, ...] = ("float64", "float32", "bfloat16", "int8")


def unit(rows: Units) -> Units:
    return on_grid(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def whole(units: Units) -> list[list[int]]:
    """Components in steps of the grid."""
    steps = units / GRID
    assert np.array_equal(steps, np.rint(steps))
    return [[int(value) for value in row] for row in steps]


def exact(a: Units, b: Units) -> Scores:
    """All scores by arithmetic on whole numbers, which never rounds; the last division must not either."""
    found = np.empty((len(a), len(b)))
    for i, left in enumerate(whole(a)):
        for j, right in enumerate(whole(b)):
            steps = sum(x * y for x, y in zip(left, right, strict=True))
            found[i, j] = steps * GRID * GRID
            assert int(found[i, j] / GRID / GRID) == steps
    return found


# --- the grid --------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 512), st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 8.0]))
def test_order_of_the_sum_does_not_matter_on_the_grid(dim: int, seed: int, power: float) -> None:
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=(3, dim))
    units = unit(np.sign(raw) * np.abs(raw) ** power)  # from all alike to nearly one-hot
    expected = exact(units, units)
    order = rng.permutation(dim)
    for columns in (np.arange(dim), np.arange(dim)[::-1], order):
        some = np.ascontiguousarray(units[:, columns])
        assert np.array_equal(some @ some.T, expected)
        assert np.array_equal(np.einsum("id,jd->ij", some, some), expected)
        assert np.array_equal((torch.from_numpy(some) @ torch.from_numpy(some).T).numpy(), expected)
        running = [[np.cumsum(a * b)[-1] for b in some] for a in some]
        assert np.array_equal(running, expected)
        split = some[:, : dim // 2] @ some[:, : dim // 2].T + some[:, dim // 2 :] @ some[:, dim // 2 :].T
        assert np.array_equal(split, expected)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20))
def test_grid_moves_no_component_by_more_than_half_a_step(values: list[float]) -> None:
    row = np.array([values])
    assert np.abs(on_grid(row) - row).max() <= GRID / 2
    assert np.array_equal(on_grid(on_grid(row)), on_grid(row))
    whole(on_grid(row))


@given(st.integers(1, 40), st.integers(0, 10_000))
def test_a_length_is_one_sum_in_one_order(dim: int, seed: int) -> None:
    """Restated with Python's own floats, to the last bit: they add in this order on every processor."""
    rows = np.random.default_rng(seed).normal(size=(3, dim))
    for row, length in zip(rows.tolist(), lengths(rows), strict=True):
        squares = [x * x for x in row]
        while len(squares) > 1:
            half, odd = divmod(len(squares), 2)
            last = squares[-1]
            squares = [squares[i] + squares[half + i] for i in range(half)]
            squares[0] += last if odd else 0.0
        assert length == math.sqrt(squares[0])


def test_lengths_of_many_rows_are_those_of_each() -> None:
    rows = np.random.default_rng(0).normal(size=(2 * scanning.ROWS + 5, 19))
    assert np.array_equal(lengths(rows), np.concatenate([lengths(row[None]) for row in rows]))
    assert np.allclose(lengths(rows), np.linalg.norm(rows, axis=1), rtol=1e-14, atol=0)
    assert lengths(rows[:0]).shape == (0,)


def test_dots_are_the_scores_of_the_listed_pairs() -> None:
    rng = np.random.default_rng(0)
    a, b = unit(rng.normal(size=(20, 9))), unit(rng.normal(size=(30, 9)))
    i, j = rng.integers(20, size=40_000), rng.integers(30, size=40_000)  # more than one block
    assert np.array_equal(dots(a, i, b, j), exact(a, b)[i, j])
    assert len(dots(a, i[:0], b, j[:0])) == 0


# --- the bound -------------------------------------------------------------------------------------------------------


def near_ties(rng: np.random.Generator, dim: int) -> Units:
    return unit(unit(rng.normal(size=(1, dim))) + rng.integers(-8, 9, (12, dim)) * GRID)


def half_steps(rng: np.random.Generator, dim: int) -> Units:
    """Components in the middle between two bfloat16 or int8 values: each is rounded by as much as can be."""
    rows = (rng.integers(0, 63, (12, dim)) * 2 + 1.5) * rng.choice([-1, 1], (1, dim))
    rows[:, 0] = 127
    return on_grid(rows / np.linalg.norm(rows, axis=1).max())


def one_sided(rng: np.random.Generator, dim: int) -> Units:
    """All rounded the same way, and summed without cancellation: errors add up."""
    step = 2.0 ** -math.ceil(math.log2(dim) / 2)
    return on_grid(np.full((4, dim), step * (1 - 2.0**-9 - 2.0**-20)) - rng.integers(0, 2, (4, dim)) * GRID)


def turns(rng: np.random.Generator, dim: int) -> Units:
    """Signs alternate and sizes differ by powers of two: partial sums swing."""
    sizes = 2.0 ** -rng.integers(0, 20, (12, dim))
    return unit(sizes * (-1.0) ** np.arange(dim))


def sparse(rng: np.random.Generator, dim: int) -> Units:
    return unit(
        rng.normal(size=(12, dim)) * (rng.random((12, dim)) < 2 / dim) + np.eye(dim)[rng.integers(dim, size=12)]
    )


SHAPES: list[Callable[[np.random.Generator, int], Units]] = [
    lambda rng, dim: unit(rng.normal(size=(12, dim))),
    lambda rng, dim: unit(rng.random((12, dim))),
    lambda rng, dim: np.eye(dim)[rng.integers(dim, size=8)] * rng.choice([-1.0, 1.0], (8, 1)),
    lambda rng, dim: np.zeros((3, dim)),
    sparse,
    near_ties,
    half_steps,
    one_sided,
    turns,
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [2, 3, 17, 64, 512])
def test_narrow_scores_stay_within_the_bound(kind: Kind, dim: int) -> None:
    rng = np.random.default_rng(dim)
    sets = [shape(rng, dim) for shape in SHAPES]
    for units in sets:
        for others in (units, -units[:3], sets[0]):
            a, b = Narrow(units, kind), Narrow(others, kind)
            tile = product(a, slice(0, len(a)), b, slice(0, len(b))).double().numpy()
            assert np.abs(tile - units @ others.T).max() <= bound(a, b)


def test_bound_is_within_reach() -> None:
    """Errors that all point one way come near it: a bound that is never approached would cost time and prove little."""
    units = one_sided(np.random.default_rng(0), 512)
    a = Narrow(units, "bfloat16")
    tile = product(a, slice(0, 4), a, slice(0, 4)).double().numpy()
    assert np.abs(tile - units @ units.T).max() >= 0.4 * bound(a, a)


@settings(deadline=None, max_examples=80)
@given(
    st.sampled_from(KINDS[1:]),
    st.lists(st.lists(st.floats(-1, 1, width=16), min_size=5, max_size=5), min_size=2, max_size=6),
)
def test_bound_holds_for_any_vectors(kind: Kind, rows: list[list[float]]) -> None:
    units = on_grid(np.array(rows) / max(1.0, float(np.linalg.norm(rows, axis=1).max())))
    narrow = Narrow(units, kind)
    tile = product(narrow, slice(0, len(rows)), narrow, slice(0, len(rows))).double().numpy()
    assert np.abs(tile - units @ units.T).max() <= bound(narrow, narrow)


@pytest.mark.parametrize("kind", KINDS[2:])
@pytest.mark.parametrize("dim", [2, 17, 512])
def test_no_score_is_above_what_a_sieve_says(kind: Kind, dim: int) -> None:
    rng = np.random.default_rng(dim)
    sets = [shape(rng, dim) for shape in SHAPES]
    mixed = np.concatenate(sets)  # rows that differ in how far they are off
    for units, others in [(mixed, mixed), (mixed, -mixed), *itertools.pairwise(sets)]:
        sieve = Sieve(Narrow(units, kind), Narrow(others, kind))
        highest = sieve.tile(slice(0, len(units)), slice(0, len(others))).double() + sieve.rows.double()
        assert (highest.numpy() >= units @ others.T).all()
        assert float(sieve.rows.max() + sieve.columns.max()) <= bound(sieve.a, sieve.b) * 1.001 + 1e-6


def test_reach_of_int8_is_that_of_the_rows_at_hand() -> None:
    """One row with an outlier has a wide bound, and the others keep theirs."""
    rng = np.random.default_rng(0)
    units = unit(rng.normal(size=(50, 512)))
    units[0] = unit(np.eye(512)[:1] + 0.02)
    narrow = Narrow(units, "int8")
    sieve = Sieve(narrow, narrow)
    assert float(sieve.rows[1:].max() + sieve.columns[1:].max()) < 0.5 * bound(narrow, narrow)


def test_sieve_that_leaves_most_to_float32_is_given_up() -> None:
    narrow = Narrow(unit(np.random.default_rng(0).normal(size=(5, 30))), "int8")
    sieve = Sieve(narrow, narrow)
    for _ in range(8):
        assert sieve.pays()
        assert not sieve.leaves_few(500, 1000)
    assert not sieve.pays()


def test_bound_of_float64_is_nothing() -> None:
    narrow = Narrow(unit(np.random.default_rng(0).normal(size=(5, 30))), "float64")
    assert bound(narrow, narrow) == 0


def test_kind_that_this_build_lacks_is_no_sieve(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> torch.Tensor:
        raise RuntimeError('"addmm_impl_cpu_" not implemented')

    monkeypatch.setattr(torch, "_int_mm", missing)
    scanning.sieves.cache_clear()
    try:
        assert "int8" not in scanning.sieves(16)
    finally:
        scanning.sieves.cache_clear()


def test_kind_that_is_chosen_exists_and_leaves_torch_as_it_was() -> None:
    before = torch.get_num_threads(), torch.get_float32_matmul_precision()
    assert set(scanning.sieves(24)) <= set(KINDS[2:])
    assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == before


# --- 1:N -------------------------------------------------------------------------------------------------------------


def naive_top_two(probes: Units, gallery: Units) -> list[tuple[int, float, int, float]]:
    """By sorting every score, the earlier template before the later."""
    found = []
    for row in probes @ gallery.T if len(gallery) else [np.zeros(0)] * len(probes):
        ranked = sorted((-score, place) for place, score in enumerate(row.tolist()))
        listed = [(place, -score) for score, place in ranked[:2]]
        listed += [(-1, -math.inf)] * (2 - len(listed))
        found.append((*listed[0], *listed[1]))
    return found


def listed(probes: Units, gallery: Units, kind: Kind | None) -> list[tuple[int, float, int, float]]:
    c = top_two(probes, gallery, kind)
    return list(zip(c.best.tolist(), c.score.tolist(), c.second.tolist(), c.second_score.tolist(), strict=True))


def random_set(rng: np.random.Generator) -> tuple[Units, Units]:
    return unit(rng.normal(size=(40, 12))), unit(rng.normal(size=(90, 12)))


def duplicates(rng: np.random.Generator) -> tuple[Units, Units]:
    some = unit(rng.integers(-1, 2, (6, 4)).astype(np.float64) + 0.5)
    return some[rng.integers(6, size=30)], some[rng.integers(6, size=70)]


def near(rng: np.random.Generator) -> tuple[Units, Units]:
    """Templates a step of the grid apart: narrow scores all tie, or come in the wrong order."""
    centre = unit(rng.normal(size=(1, 16)))
    return centre + rng.integers(-2, 3, (30, 16)) * GRID, centre + rng.integers(-1, 2, (80, 16)) * GRID


def near_and_far(rng: np.random.Generator) -> tuple[Units, Units]:
    """A few near-ties among many that are none, in no order."""
    probes, gallery = unit(rng.normal(size=(20, 24))), unit(rng.normal(size=(200, 24)))
    for probe in range(20):
        places = rng.choice(200, 3, replace=False)
        gallery[places] = probes[probe] + rng.integers(-1, 2, (3, 24)) * GRID
    return probes, gallery


def collapsed(rng: np.random.Generator) -> tuple[Units, Units]:
    vector = unit(rng.normal(size=(1, 8)))
    return np.tile(vector, (20, 1)), np.tile(vector, (50, 1))


def within_1e_7(rng: np.random.Generator) -> tuple[Units, Units]:
    vector = unit(rng.normal(size=(1, 8)))
    return unit(vector + rng.normal(0, 1e-7, (20, 8))), unit(vector + rng.normal(0, 1e-7, (50, 8)))


def with_zeros(rng: np.random.Generator) -> tuple[Units, Units]:
    """Templates of no direction score 0 with everybody."""
    probes, gallery = random_set(rng)
    gallery[::3] = 0
    return probes, gallery


def opposite(rng: np.random.Generator) -> tuple[Units, Units]:
    """Scores at -1 and 1, and each of them twice."""
    some = unit(rng.normal(size=(20, 12)))
    return some, np.concatenate([-some, some, -some, some])


SETS = [opposite, random_set, duplicates, near, near_and_far, collapsed, within_1e_7, with_zeros]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("made", SETS)
def test_two_best_templates_against_brute_force(
    kind: Kind, made: Callable[[np.random.Generator], tuple[Units, Units]]
) -> None:
    for seed in range(3):
        probes, gallery = made(np.random.default_rng(seed))
        assert listed(probes, gallery, kind) == naive_top_two(probes, gallery)


@pytest.mark.parametrize("kind", KINDS[2:])
@pytest.mark.parametrize("made", SETS)
@pytest.mark.parametrize("heap", [0, 4, 10**9])
def test_sieve_before_float32_against_brute_force(
    kind: Kind,
    made: Callable[[np.random.Generator], tuple[Units, Units]],
    heap: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Open pairs are scored one by one, by tiles where they are many, or always by tiles."""
    for module in (scanning, searching):
        monkeypatch.setattr(module, "HEAP", heap)
    monkeypatch.setattr(searching, "COLUMNS", 12)
    for seed in range(2):
        probes, gallery = made(np.random.default_rng(seed))
        assert listed(probes, gallery, kind) == naive_top_two(probes, gallery)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_few_pairs_are_left_to_float64(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of int8 leaves dozens of templates open for each probe, that of float32 just the two."""
    rng = np.random.default_rng(0)
    probes, gallery = unit(rng.normal(size=(40, 128))), unit(rng.normal(size=(2000, 128)))
    exactly = []

    def counted(a: Units, i: Codes, b: Units, j: Codes) -> Scores:
        exactly.append(len(i))
        return dots(a, i, b, j)

    monkeypatch.setattr(searching, "dots", counted)
    monkeypatch.setattr(searching, "COLUMNS", 256)
    assert listed(probes, gallery, kind) == naive_top_two(probes, gallery)
    assert sum(exactly) <= 3 * len(probes)


@pytest.mark.parametrize("made", SETS)
@pytest.mark.parametrize("taken", [0, 1, 2])
def test_trial_of_kinds_leaves_no_probe_out(
    made: Callable[[np.random.Generator], tuple[Units, Units]], taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes, gallery = made(np.random.default_rng(0))
    probes = np.tile(probes, (4, 1))
    seen = []

    def chosen(
        kinds: list[Kind], prepare: Callable[[Kind], None], run: Callable[[Kind, int, int], None], n: int, _: int
    ) -> tuple[Kind, int]:
        for k, kind in enumerate(kinds):
            prepare(kind)
            run(kind, 2 * k, 2 * k + 2)
        seen.append(kinds)
        return kinds[taken], 2 * len(kinds)

    monkeypatch.setattr(searching, "trial", chosen)
    monkeypatch.setattr(searching, "PAIRS", 0)
    monkeypatch.setattr(searching, "COLUMNS", 16)
    monkeypatch.setattr(searching, "sieves", lambda _: ["int8", "bfloat16"])
    assert listed(probes, gallery, None) == naive_top_two(probes, gallery)
    assert seen == [["float32", "int8", "bfloat16"]]


def test_small_search_takes_float32_without_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "sieves", lambda _: pytest.fail("measured"))
    probes, gallery = random_set(np.random.default_rng(0))
    assert listed(probes, gallery, None) == naive_top_two(probes, gallery)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("templates", [0, 1, 2, 3])
def test_small_galleries(kind: Kind, templates: int) -> None:
    probes, gallery = random_set(np.random.default_rng(0))
    assert listed(probes, gallery[:templates], kind) == naive_top_two(probes, gallery[:templates])
    assert listed(probes[:0], gallery[:templates], kind) == []
    tied = np.tile(gallery[:1], (templates, 1))
    assert listed(probes[:1], tied, kind) == naive_top_two(probes[:1], tied)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("made", SETS)
@pytest.mark.parametrize("rows", [1, 3, 64])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_blocks_and_threads_do_not_matter(
    made: Callable[[np.random.Generator], tuple[Units, Units]],
    rows: int,
    count: int,
    threads: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probes, gallery = made(np.random.default_rng(5))
    probes, gallery = probes[:4], gallery[:30]
    torch.set_num_threads(count)
    for columns in (1, 7, 64):
        monkeypatch.setattr(searching, "ROWS", rows)
        monkeypatch.setattr(searching, "COLUMNS", columns)
        for kind in KINDS:
            assert listed(probes, gallery, kind) == naive_top_two(probes, gallery)
    assert torch.get_num_threads() == count


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(KINDS),
    st.lists(st.tuples(*[st.integers(-2, 2)] * 3), min_size=1, max_size=6),
    st.lists(st.tuples(*[st.integers(-2, 2)] * 3), max_size=20),
    st.integers(1, 5),
)
def test_any_small_search(
    kind: Kind, probes: list[tuple[int, int, int]], gallery: list[tuple[int, int, int]], columns: int
) -> None:
    def scaled(rows: list[tuple[int, int, int]]) -> Units:
        return on_grid(np.array(rows, dtype=np.float64).reshape(-1, 3) / math.sqrt(12))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "COLUMNS", columns)
        assert listed(scaled(probes), scaled(gallery), kind) == naive_top_two(scaled(probes), scaled(gallery))


# --- all pairs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_tiles_hold_each_nonmated_pair_once(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "ROWS", rows)
    codes: Codes = np.sort(np.random.default_rng(0).integers(0, 6, 20))
    seen = np.zeros((20, 20), dtype=int)
    for left, right in pair_tiles(20):
        tile = torch.zeros(left.stop - left.start, right.stop - right.start)
        exclude(tile, codes, left, right)
        seen[left, right] += (tile == 0).numpy()
    expected = [[int(i < j and codes[i] != codes[j]) for j in range(20)] for i in range(20)]
    assert seen.tolist() == expected
