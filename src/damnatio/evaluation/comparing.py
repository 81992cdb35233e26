"""Templates, mated pairs and searches. Scores are cosines, exact on the grid of `scanning`.

Identities are given as codes.
"""

import numpy as np

from damnatio.evaluation.scanning import Places, Scores, Units, dots, on_grid
from damnatio.evaluation.searching import top_two
from damnatio.support.arrays import lengths
from damnatio.support.tables import Codes, groups_of


def templates(units: Units, codes: Codes) -> tuple[Units, Codes]:
    """One template per identity, ascending by code: the mean of its unit vectors, normalised again."""
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    if not len(present):
        return units[:0], codes[:0]
    sums = np.add.reduceat(units[order], starts, axis=0)
    return _normalised(sums), present


def mated_pairs(codes: Codes) -> tuple[Places, Places]:
    """Places (a, b), a before b, of every pair of one identity."""
    pairs = [(group[a], group[b]) for group in groups_of(codes) for a, b in [np.triu_indices(len(group), 1)]]
    if not pairs:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])


def mated_across(codes_a: Codes, codes_b: Codes) -> tuple[Places, Places]:
    """Places (a, b) of every pair of one identity, a in the first set and b in the second."""
    order = np.argsort(codes_b, kind="stable")
    ordered = codes_b[order]
    low, high = np.searchsorted(ordered, codes_a, "left"), np.searchsorted(ordered, codes_a, "right")
    counts = high - low
    a = np.repeat(np.arange(len(codes_a)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return a, order[np.repeat(low, counts) + within]


def search(probes: Units, probe_codes: Codes, gallery: Units, gallery_codes: Codes) -> tuple[Scores, Scores]:
    """For each probe the score of its own identity's template (-inf if there is none) and the highest score of any
    other template. The gallery holds one template per identity."""
    found = top_two(probes, gallery)
    a, b = mated_across(probe_codes, gallery_codes)
    own = np.full(len(probes), -np.inf)
    own[a] = dots(probes, a, gallery, b)
    leads = np.zeros(len(probes), bool)
    leads[a] = found.best[a] == b
    return own, np.where(leads, found.second_score, found.score)


def leave_one_out(units: Units, codes: Codes) -> Scores:
    """Each vector's score with the template of the other vectors of its identity; -inf where there is no other."""
    own = np.full(len(codes), -np.inf)
    for group in groups_of(codes):
        if len(group) > 1:
            others = _normalised(units[group].sum(axis=0) - units[group])
            own[group] = np.einsum("ij,ij->i", others, units[group])
    return own


def _normalised(sums: Units) -> Units:
    norms = lengths(sums)[:, None]
    return on_grid(np.divide(sums, norms, out=np.zeros_like(sums), where=norms > 0))
