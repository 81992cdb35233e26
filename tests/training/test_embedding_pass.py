"""A batch in pieces has the gradient of the whole batch."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from damnatio.backbones.vit import DropPath
from damnatio.training.embedding_pass import EmbeddingPass


class Network(nn.Module):
    """Draws at random in training, and counts what it has seen."""

    seen: torch.Tensor

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(5, 8), DropPath(rate), nn.Linear(8, 4)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen += len(x)
        out: torch.Tensor = self.last(self.drop(self.first(x).relu()[:, :, None]).squeeze(2))
        return out


def pair_loss(raw: torch.Tensor) -> torch.Tensor:
    """A loss that no sum over the images is."""
    unit = F.normalize(raw, dim=1)
    return (unit @ unit.T).logsumexp(dim=1).mean()


@pytest.mark.parametrize(("rate", "pieces"), [(0.0, 3), (0.0, 11), (0.5, 4)])
def test_pieces_have_the_gradient_of_the_whole_batch(rate: float, pieces: int) -> None:
    torch.manual_seed(0)
    network = Network(rate).double()
    x = torch.randn(11, 5, dtype=torch.float64)
    parameters = list(network.parameters())

    torch.manual_seed(1)  # what the network draws, it draws piece by piece
    whole = torch.cat([network(piece) for piece in x.tensor_split(pieces)])
    wanted = torch.autograd.grad(pair_loss(whole), parameters)
    after = torch.rand(1)

    torch.manual_seed(1)
    run = EmbeddingPass(network, "fp32")
    raw = run(x, pieces)
    torch.testing.assert_close(raw, whole)
    pair_loss(raw).backward()  # type: ignore[no-untyped-call]
    run.backward(raw)
    for parameter, gradient in zip(parameters, wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
    assert torch.equal(torch.rand(1), after), "the generator stands where it would have stood"
    assert float(network.seen) == 2 * len(x), "each call counts the batch once"
