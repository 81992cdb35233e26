"""OF: give each forget image a target direction, far from everybody and from the other targets, and align it there."""

from collections.abc import Callable

from torch import Tensor

from damnatio.losses.base import ForgetLoss, Given, rows_of, unit


class OrthonormalFrame(ForgetLoss):
    """Orthonormal frame (the paper, III-C):

        L = w/N sum_i (1 - <f(x_i), U_i>)

    U_i are unit targets, one per image, fixed before training: a tensor, n x d, such as `frames.greedy` makes, or a
    function from places to N x d, such as `frames.closed(d)`. One value per image.

    >>> loss = OrthonormalFrame(torch.eye(3), weight=100)
    >>> float(loss(torch.eye(3)[1:], torch.tensor([0, 0]), torch.tensor([1, 0])))
    50.0
    """

    needs = frozenset({"images"})
    targets: Tensor | None

    def __init__(
        self, targets: Tensor | Callable[[Tensor], Tensor], weight: float = 100.0, *, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.weight = weight
        table = isinstance(targets, Tensor)
        self.register_buffer("targets", unit(targets.detach()) if isinstance(targets, Tensor) else None)
        self._targets_of: Callable[[Tensor], Tensor] | None = None if table else targets  # type: ignore[assignment]

    def values(self, given: Given) -> Tensor:
        return 1 - (given.unit * self.targets_of(given.images).to(given.raw)).sum(dim=1)

    def reduced(self, values: Tensor) -> Tensor:
        return self.weight * super().reduced(values)

    def targets_of(self, images: Tensor) -> Tensor:
        """The target of each image, by its place."""
        if self._targets_of is not None:
            return self._targets_of(images)
        assert self.targets is not None
        return rows_of(self.targets, images, "OrthonormalFrame", "image")
