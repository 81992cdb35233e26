"""How many of a person's new photographs a gate is expected to catch."""

import numpy as np
import pytest

from damnatio.methods.gate_widths import PRIOR, _expected, held_out
from damnatio.methods.strangers import COSINE, mean_direction


def alike(count: int, cosine: float) -> np.ndarray:
    """Unit vectors that all have this cosine with each other."""
    gram = np.full((count, count), cosine) + (1 - cosine) * np.eye(count)
    return np.asarray(np.linalg.cholesky(gram))


@pytest.mark.parametrize("photographs", [1, 2, 5, 16])
def test_the_expected_score_is_that_of_photographs_which_are_all_equally_alike(photographs: int) -> None:
    units = alike(photographs + 1, COSINE.mated_mean)
    assert units[-1] @ mean_direction(units[:-1]) == pytest.approx(COSINE.score(photographs))


def test_a_photograph_held_out_counts_as_if_the_prototype_had_one_more() -> None:
    """Two photographs of cosine 0.63: each meets the other at 0.63, and a third one meets their mean at 0.698."""
    own = held_out(alike(2, 0.63), 1)
    assert own == pytest.approx([0.63, 0.63])
    within, above = (_expected(own, 2, at, COSINE) for at in (0.69, 0.70))
    assert within == pytest.approx((2 + PRIOR * COSINE.caught(0.69, 2)) / (2 + PRIOR))
    assert above == pytest.approx((0 + PRIOR * COSINE.caught(0.70, 2)) / (2 + PRIOR))


def test_one_photograph_alone_is_judged_by_the_model() -> None:
    assert _expected(held_out(alike(1, 0.63), 1), 1, 0.5, COSINE) == COSINE.caught(0.5, 1)
