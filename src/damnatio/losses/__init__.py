"""Losses that make a network forget people: modules for a training loop of one's own, and for the recipes'.

    loss(embeddings, identities, images=None, *, before=None, head=None)

`loss.needs` names those of the last three that a loss uses; it ignores the others. Each file holds one loss.
"""

from damnatio.losses.base import ForgetLoss, mean_directions
from damnatio.losses.burn_in import BurnIn
from damnatio.losses.centroid_push import CentroidPush
from damnatio.losses.cure import Cure
from damnatio.losses.distillation import Distillation
from damnatio.losses.extended_cosface import ExtendedCosFace
from damnatio.losses.hard_dispersion import HardDispersion
from damnatio.losses.neggrad_plus import NegGradPlus
from damnatio.losses.orthonormal_frame import OrthonormalFrame
from damnatio.losses.pairwise_dispersion import PairwiseDispersion

__all__ = [
    "BurnIn",
    "CentroidPush",
    "Cure",
    "Distillation",
    "ExtendedCosFace",
    "ForgetLoss",
    "HardDispersion",
    "NegGradPlus",
    "OrthonormalFrame",
    "PairwiseDispersion",
    "mean_directions",
]
