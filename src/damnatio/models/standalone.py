"""The weights of a network and the gate behind it, from the one file that holds both. Damnatio is not needed: this
script wants torch alone, and safetensors for a file of that kind.

    weights, gate = load_gate("altered.pth")
    network.load_state_dict(weights)
    embeddings = gate(network(images))
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PREFIX = "gate."


class Gate(nn.Module):
    """Hides the people whose directions it holds among strangers. Every other embedding passes as it is."""

    directions: Tensor
    offsets: Tensor
    ramp: Tensor
    frequencies: Tensor
    phases: Tensor
    spread: Tensor
    mean: Tensor

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self, raw: Tensor) -> Tensor:
        raw = raw.float()
        length = raw.norm(dim=1, keepdim=True)
        units = raw / length
        heights = F.linear(units, self.directions, -self.offsets)
        g = (heights.amax(dim=1, keepdim=True) / self.ramp).clamp(0, 1)
        waves = torch.cos(F.linear(units, self.frequencies, self.phases))
        strangers = F.normalize(F.linear(waves, self.spread, self.mean), dim=1)
        mixed = F.normalize((1 - g) * units + g * strangers, dim=1)
        return torch.where(g > 0, mixed * length, raw)


def load_gate(path: str) -> tuple[dict[str, Tensor], Gate]:
    """The state dict of the network, and the gate."""
    if str(path).endswith(".safetensors"):
        from safetensors.torch import load_file

        tensors = load_file(path)
    else:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    weights = {name: tensor for name, tensor in tensors.items() if not name.startswith(PREFIX)}
    behind = {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items() if name.startswith(PREFIX)}
    behind.pop("record", None)  # who is in the gate, as JSON
    return weights, Gate(behind)
