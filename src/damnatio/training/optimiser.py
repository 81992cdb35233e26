"""The optimiser of a training, and its learning rate at each step."""

import torch
from torch import nn

from damnatio.recipe.schema import Optimisation


def optimiser(parameters: list[nn.Parameter], settings: Optimisation, lr: float) -> torch.optim.Optimizer:
    if settings.optimiser == "adamw":
        return torch.optim.AdamW(parameters, lr=lr, weight_decay=settings.weight_decay)
    return torch.optim.SGD(parameters, lr=lr, momentum=settings.momentum, weight_decay=settings.weight_decay)


def learning_rate(step: int, *, total: int, warmup: int, base: float, power: float) -> float:
    """Linear from base/warmup to base, then base (1 - t/T)^power, which reaches zero just after the last step."""
    if step < warmup:
        return base * (step + 1) / warmup
    return float(base * (1 - (step - warmup) / (total - warmup)) ** power)
