"""Partial FC (An et al. 2022, arXiv 2203.15565): the softmax of a step is over some of the class vectors only.

The class vectors of the step's images always take part, each other one with the probability r. Whether one does is a
function of (seed, step, its row), so that any number of processes draws the same ones. The authors draw a fixed number
per process instead. As in their second version, the optimiser moves every row: those that were not drawn by momentum
and weight decay alone.
"""

import numpy as np
import torch
from torch import Tensor

_PER_BLOCK = 4
"""numbers that Philox makes at once, from one value of its counter"""


def drawn(share: float, step: tuple[int, int], rows: slice, needed: Tensor) -> Tensor:
    """The places of the rows that take part in a step, among the rows of the class matrix that a process holds.
    `needed` are the places that must. At least one does."""
    numbers = np.random.Philox(np.random.SeedSequence([*step, _STREAM]))
    before = rows.start % _PER_BLOCK
    numbers.advance(rows.start // _PER_BLOCK)
    chances = np.random.Generator(numbers).random(before + rows.stop - rows.start)[before:]
    taking = torch.from_numpy(chances < share).to(needed.device)
    taking[needed] = True
    taking[0] |= not taking.any()  # of a handful of rows, perhaps none is drawn
    return taking.nonzero().squeeze(1)


_STREAM = 7  # the streams 4 to 6 of a seed draw the batches
