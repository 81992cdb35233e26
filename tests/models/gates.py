"""Gates of a few random people, and embeddings inside and outside their cones."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from damnatio.models.gate import Cone, Entry, Gate, Member, Record, Scatter, pseudonym
from damnatio.models.statistics import Tail

TAIL = Tail(share=0.05, at=1.6, scale=0.45)


def units(count: int, dim: int, seed: int) -> Tensor:
    return F.normalize(torch.randn(count, dim, generator=torch.Generator().manual_seed(seed)), dim=1)


def scatter(dim: int, waves: int = 64, seed: int = 0) -> Scatter:
    random = torch.Generator().manual_seed(seed)
    return Scatter(
        frequencies=torch.randn(waves, dim, generator=random) * 8,
        phases=torch.rand(waves, generator=random) * 2 * torch.pi,
        spread=torch.randn(dim, waves, generator=random) * (2 / waves / dim) ** 0.5,
        mean=torch.randn(dim, generator=random) * 0.01,
    )


def member(directions: Tensor, least: float = 0.85, **changes: Any) -> Member:
    """A person with a cone around each of these unit vectors, which begins at the score `least`."""
    values = directions.numpy().astype(np.float32)
    cones = [Cone(centre=0.0, deviation=0.1, least=least) for _ in values]
    entry = Entry(pseudonym=pseudonym(values), photographs=3, caught=0.9, cones=cones)
    return Member(values, entry.model_copy(update=changes))


def record(strangers: float = 1e-4) -> Record:
    return Record(strangers=strangers, tail=TAIL, source="a test", bandwidth=8.0, people=[])


def gate_around(directions: Tensor, waves: int = 64, least: float = 0.85) -> Gate:
    """A gate with one person for each of these unit vectors."""
    members = [member(one[None], least) for one in directions]
    return Gate.of(members, record(), ramp=(1 - least) / 3, scatter=scatter(directions.shape[1], waves))
