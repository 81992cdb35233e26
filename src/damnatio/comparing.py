"""Scores of comparisons, by blocks of matrix products: cosines of unit vectors in float64.

Identities are given as codes: equal codes, one identity.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from damnatio.captures import groups_of

Units = NDArray[np.float64]
Scores = NDArray[np.float64]
Codes = NDArray[np.int64]

BLOCK = 1024
STEP = 2.0**-40
"""Scores are multiples of this: equal in exact arithmetic, equal here, whatever product or sum made them."""


def templates(units: Units, codes: Codes) -> tuple[Units, Codes]:
    """One template an identity, ascending by code: the mean of its unit vectors, normalised again."""
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    if not len(present):
        return units[:0], codes[:0]
    sums = np.add.reduceat(units[order], starts, axis=0)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.divide(sums, lengths, out=np.zeros_like(sums), where=lengths > 0), present


def mated_pairs(codes: Codes) -> tuple[Codes, Codes]:
    """Places (a, b), a before b, of every pair of one identity."""
    pairs = [(group[a], group[b]) for group in groups_of(codes) for a, b in [np.triu_indices(len(group), 1)]]
    if not pairs:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])


def mated_across(codes_a: Codes, codes_b: Codes) -> tuple[Codes, Codes]:
    """Places (a, b) of every pair of one identity, a in the first set and b in the second."""
    order = np.argsort(codes_b, kind="stable")
    ordered = codes_b[order]
    low, high = np.searchsorted(ordered, codes_a, "left"), np.searchsorted(ordered, codes_a, "right")
    counts = high - low
    a = np.repeat(np.arange(len(codes_a)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return a, order[np.repeat(low, counts) + within]


def pair_scores(units_a: Units, a: Codes, units_b: Units, b: Codes) -> Scores:
    """The cosine of each listed pair."""
    scores = np.empty(len(a))
    for start in range(0, len(a), 1 << 16):
        part = slice(start, start + (1 << 16))
        scores[part] = _rounded(np.einsum("ij,ij->i", units_a[a[part]], units_b[b[part]]))
    return scores


def nonmated_pairs(units: Units, codes: Codes, most: int, rng: np.random.Generator) -> Scores:
    """Scores of single images of different identities, each pair once: all, or `most` of them drawn at random."""
    n = len(codes)
    if n * (n - 1) // 2 - len(mated_pairs(codes)[0]) <= most:
        parts = []
        for rows in _blocks(n):
            scores = _rounded(units[rows] @ units[rows.start :].T)
            later = np.arange(rows.start, n)[None, :] > np.arange(rows.start, rows.stop)[:, None]
            parts.append(scores[later & (codes[rows, None] != codes[None, rows.start :])])
        return np.concatenate(parts) if parts else np.zeros(0)
    return _drawn(units, codes, units, codes, most, rng)


def nonmated_across(
    units_a: Units, codes_a: Codes, units_b: Units, codes_b: Codes, most: int, rng: np.random.Generator
) -> Scores:
    """Scores of every vector of one set against every vector of the other of another identity, or `most` of them."""
    if len(codes_a) * len(codes_b) - len(mated_across(codes_a, codes_b)[0]) <= most:
        parts = [
            _rounded(units_a[rows] @ units_b.T)[codes_a[rows, None] != codes_b[None, :]]
            for rows in _blocks(len(codes_a))
        ]
        return np.concatenate(parts) if parts else np.zeros(0)
    return _drawn(units_a, codes_a, units_b, codes_b, most, rng)


def search(probes: Units, probe_codes: Codes, gallery: Units, gallery_codes: Codes) -> tuple[Scores, Scores]:
    """For each probe the score of its own identity's template (-inf if it has none) and the highest of any other."""
    own, best = np.full(len(probes), -np.inf), np.full(len(probes), -np.inf)
    for rows in _blocks(len(probes)):
        scores = _rounded(probes[rows] @ gallery.T)
        mine = probe_codes[rows, None] == gallery_codes[None, :]
        own[rows] = np.where(mine, scores, -np.inf).max(axis=1, initial=-np.inf)
        best[rows] = np.where(mine, -np.inf, scores).max(axis=1, initial=-np.inf)
    return own, best


def leave_one_out(units: Units, codes: Codes) -> Scores:
    """Each vector's score with the template of the other vectors of its identity; -inf where there is no other."""
    own = np.full(len(codes), -np.inf)
    for group in groups_of(codes):
        if len(group) > 1:
            others = units[group].sum(axis=0) - units[group]
            lengths = np.linalg.norm(others, axis=1)
            dots = np.einsum("ij,ij->i", others, units[group])
            own[group] = _rounded(np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0))
    return own


def _rounded(scores: Scores) -> Scores:
    return np.rint(scores / STEP) * STEP


def _blocks(count: int) -> Iterator[slice]:
    for start in range(0, count, BLOCK):
        yield slice(start, min(start + BLOCK, count))


def _drawn(
    units_a: Units, codes_a: Codes, units_b: Units, codes_b: Codes, count: int, rng: np.random.Generator
) -> Scores:
    """So many non-mated pairs, drawn independently and evenly from all of them."""
    parts, missing = [], count
    while missing:
        a, b = rng.integers(len(codes_a), size=missing), rng.integers(len(codes_b), size=missing)
        differ = codes_a[a] != codes_b[b]
        parts.append(pair_scores(units_a, a[differ], units_b, b[differ]))
        missing -= int(differ.sum())
    return np.concatenate(parts)
