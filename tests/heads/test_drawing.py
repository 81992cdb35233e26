"""Partial FC: who takes part in a step does not depend on the number of processes, and the softmax is over them."""

import numpy as np
import torch
from torch.nn import functional as F

from damnatio.heads.cosface import CosFace
from damnatio.heads.drawing import drawn
from damnatio.support.processes import share_of

NOBODY = torch.zeros(0, dtype=torch.long)


def test_any_division_of_the_rows_draws_the_same_ones() -> None:
    whole = drawn(0.1, (3, 17), slice(0, 1001), NOBODY).tolist()
    for size in (2, 3, 7):
        shares = [share_of(1001, (rank, size)) for rank in range(size)]
        parts = [drawn(0.1, (3, 17), rows, NOBODY) + rows.start for rows in shares]
        assert torch.cat(parts).tolist() == whole, size


def test_about_the_share_is_drawn_anew_in_each_step_and_the_needed_always() -> None:
    counts = np.zeros(500)
    for step in range(200):
        rows = drawn(0.1, (1, step), slice(0, 500), torch.tensor([7, 300])).numpy()
        assert {7, 300} <= set(rows.tolist())
        counts[rows] += 1
    others = np.delete(counts, [7, 300])
    assert 0.09 < others.mean() / 200 < 0.11
    assert others.max() < 60  # of 200 draws at 0.1; 20 are expected


def test_of_a_single_row_that_is_not_drawn_there_is_still_one() -> None:
    assert all(len(drawn(0.01, (1, step), slice(5, 6), NOBODY)) == 1 for step in range(20))


def test_the_loss_is_that_of_a_head_of_the_drawn_rows() -> None:
    torch.manual_seed(0)
    head, x, labels = CosFace(40, 6), torch.randn(5, 6), torch.tensor([3, 39, 3, 0, 17])
    head.partial_fc = 0.2
    head.begin_step(1, 2)
    rows = drawn(0.2, (1, 2), slice(0, 40), labels)
    assert 5 < len(rows) < 25
    small = CosFace(len(rows), 6)
    with torch.no_grad():
        small.weight.copy_(head.weight[rows])
    places = torch.tensor([rows.tolist().index(label) for label in labels.tolist()])
    torch.testing.assert_close(head(x, labels), small(x, places))
    head(x, labels).backward()
    assert head.weight.grad is not None
    assert set(head.weight.grad.abs().sum(dim=1).nonzero().flatten().tolist()) == set(rows.tolist())
    full = F.cross_entropy(64 * (head.cosines(x) - 0.4 * F.one_hot(labels, 40)), labels)
    torch.testing.assert_close(head.eval()(x, labels), full)
