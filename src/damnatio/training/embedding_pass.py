"""f of a batch with its gradient, all images at once or some at a time.

A loss over pairs of images needs the embeddings of the whole batch. If the batch does not fit into memory, f is
computed twice (Gao et al. 2021, arXiv 2101.06983): once without gradients, for all images, a piece at a time; then,
when the gradient of the loss at the embeddings is known, once more for each piece with gradients.

    dL/dw = sum over pieces  dL/df(x) df(x)/dw

This is the gradient of the whole batch, unless BatchNorm follows its batches: then each piece has its own statistics.
"""

import torch
from torch import Tensor, nn

from damnatio.heads.base import at_least_float32
from damnatio.support.exchange import GradientSum


class EmbeddingPass:
    """Runs a network over a batch; `backward` goes on from the gradient at the embeddings."""

    def __init__(self, network: nn.Module, precision: str, gradients: GradientSum | None = None) -> None:
        self._network, self._gradients = network, gradients or GradientSum([])
        self._narrow = precision == "bf16"
        self._pieces: list[tuple[Tensor, Tensor, list[Tensor]]] = []

    def __call__(self, x: Tensor, pieces: int = 1) -> Tensor:
        """N inputs -> N x dim raw embeddings, in float32 at least."""
        if pieces == 1:
            return self._run(x)
        buffers = [(buffer, buffer.clone()) for buffer in self._network.buffers()]
        with torch.no_grad():
            for piece in x.tensor_split(pieces):
                state = _generators(x.device)
                self._pieces.append((piece, self._run(piece), state))
            for buffer, before in buffers:  # the second pass counts the batch, and only once
                buffer.copy_(before)
        return torch.cat([raw for _, raw, _ in self._pieces]).requires_grad_()

    def without_gradient(self, x: Tensor, pieces: int = 1) -> Tensor:
        with torch.no_grad():
            return torch.cat([self._run(piece) for piece in x.tensor_split(pieces)])

    def backward(self, raw: Tensor) -> None:
        """Finish a backward pass that has reached the embeddings. Every gradient is then the sum over all processes."""
        if self._pieces:
            assert raw.grad is not None
            after = _generators(raw.device)
            gradients = torch.split(raw.grad, [len(piece) for piece, _, _ in self._pieces])
            for place, ((piece, _, state), gradient) in enumerate(zip(self._pieces, gradients, strict=True)):
                self._gradients.active = place == len(self._pieces) - 1
                _set_generators(state, raw.device)
                self._run(piece).backward(gradient)  # type: ignore[no-untyped-call]
            _set_generators(after, raw.device)
            self._pieces = []
        self._gradients.finish()

    def _run(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self._narrow):
            raw: Tensor = self._network(x)
        return at_least_float32(raw)


def _generators(device: torch.device) -> list[Tensor]:
    """The states of the generators that a network draws from."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def _set_generators(states: list[Tensor], device: torch.device) -> None:
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
