"""The learning rate at each step."""

import pytest

from damnatio.training.optimiser import learning_rate


def test_the_schedule_is_polynomial_and_ends_at_zero() -> None:
    assert [learning_rate(step, total=4, warmup=0, base=0.1, power=1.0) for step in range(4)] == pytest.approx(
        [0.1, 0.075, 0.05, 0.025]
    )
    assert learning_rate(2, total=4, warmup=0, base=0.1, power=2.0) == pytest.approx(0.1 * 0.25)
    assert [learning_rate(step, total=6, warmup=2, base=0.1, power=1.0) for step in range(3)] == pytest.approx(
        [0.05, 0.1, 0.1]
    )
