"""NG+: raise the cross-entropy of the forget identities, beside a retain term that lowers that of everybody else."""

from torch import Tensor, nn
from torch.nn import functional as F

from damnatio.heads.cosface import margin_of
from damnatio.losses.base import ForgetLoss, Given, class_softmax, rows_of, unit


class NegGradPlus(ForgetLoss):
    """The forget term of NegGrad+ (Kurmanji et al., NeurIPS 2023), adapted to a face head as the paper says (III-C):

        L = -CE(forget),        to be weighed as alpha CE(retain) - (1 - alpha) CE(forget), alpha = 0.95

    CE uses one further class vector per forget identity, behind those of the head: row y of `vectors` for identities
    0 to K - 1, which `losses.mean_directions` makes of f*. They are trained: give the optimiser `loss.parameters()`.
    The pull of -CE does not fade: it drives every image of an identity the same way, so their mutual similarity rises
    (paper, V-B). One value per image.
    """

    needs = frozenset({"head"})
    lambda_retain = 0.95
    lambda_forget = 0.05

    def __init__(
        self,
        vectors: Tensor,
        margin: float = 0.4,
        logit_scale: float = 64.0,
        *,
        train_vectors: bool = True,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.margin, self.logit_scale = margin, logit_scale
        self.vectors = nn.Parameter(unit(vectors.detach()), requires_grad=train_vectors)

    def values(self, given: Given) -> Tensor:
        rows_of(self.vectors, given.identities, "NegGradPlus", "identity")
        more = self.cosines(given.unit)
        own = margin_of(self.margin)
        return -class_softmax(given.head, given.raw, given.identities, more, margins=own, logit_scale=self.logit_scale)

    def cosines(self, units: Tensor) -> Tensor:
        """N x K: the cosines of unit vectors to the further class vectors. A retain softmax may take them in."""
        return (units @ F.normalize(self.vectors, dim=1).T).clamp(-1, 1)
