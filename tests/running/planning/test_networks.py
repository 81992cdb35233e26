"""The cost of a network, counted without computing: by hand, by what others publish, and by what a process takes."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from damnatio.backbones import BACKBONES
from damnatio.recipe.files import load
from damnatio.recipe.schema import ModelSettings
from damnatio.running.planning.counts import at_hand, counts_of
from damnatio.running.planning.networks import Network, logits_bytes, network_of
from damnatio.running.planning.work import Work

FACTOR = 1.6
"""how far the bytes that a process really takes may lie from the formula, to either side"""


def cost(name: str, size: int, dim: int, batch: int, precision: str = "fp32", freeze: str | None = None) -> Network:
    return network_of(name, dim, size, batch=batch, precision=precision, freeze=freeze)


class Two(nn.Module):
    """Two linear layers with a square between them, so that every byte can be counted by hand."""

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.first = nn.Linear(3 * size * size, 100, bias=False)
        self.second = nn.Linear(100, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x.flatten(1)).square())
        return out


def test_a_network_of_two_layers_is_counted_as_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    BACKBONES.names()
    monkeypatch.setitem(BACKBONES._parts, "two", Two)
    found = cost("two", size=4, dim=7, batch=10)
    assert found.parameters == 48 * 100 + 100 * 7
    assert found.forward == 2 * (48 * 100 + 100 * 7)
    assert found.gradient == 3 * found.forward
    hidden, out = 4 * 10 * 100, 4 * 10 * 7
    # At the end of the forward pass: the hidden layer, its square and the output. In the backward pass at most the
    # gradients of both layers, and of what lies between, come on top.
    least, most = 2 * hidden + out, 5 * hidden + 3 * out + 4 * found.parameters
    assert least <= found.activations <= most


def test_the_papers_networks_cost_what_is_published() -> None:
    """InsightFace gives 6.3 billion multiply-adds for its iResNet-50, and 5.7 for ViT-S with all of its tokens."""
    assert cost("iresnet50", 112, 512, 2).forward / 2e9 == pytest.approx(6.3, abs=0.05)
    assert cost("iresnet34", 112, 512, 2).parameters == pytest.approx(34.1e6, rel=0.01)
    assert cost("vit-s", 112, 512, 2).forward / 2e9 == pytest.approx(5.7 * 0.9, rel=0.01)  # a tenth is hidden
    assert cost("vit-b", 112, 512, 2).gradient == 4 * cost("vit-b", 112, 512, 2).forward  # blocks are computed again


def test_activations_grow_with_the_batch_and_halve_in_half_precision() -> None:
    few, many = cost("iresnet-tiny", 32, 64, 32), cost("iresnet-tiny", 32, 64, 128)
    half = cost("iresnet-tiny", 32, 64, 128, precision="bf16")
    assert many.activations / few.activations == pytest.approx(4, rel=0.1)
    assert half.activations / many.activations == pytest.approx(0.5, rel=0.15)


def test_a_frozen_trunk_is_not_paid_for() -> None:
    whole, tail = cost("iresnet-tiny", 32, 64, 16), cost("iresnet-tiny", 32, 64, 16, freeze="layer3")
    assert tail.cut == (64, 4, 4)
    assert tail.parameters < whole.parameters
    assert tail.forward < whole.forward
    assert tail.activations < whole.activations


def test_logits_hold_a_few_copies_of_every_cosine() -> None:
    model = ModelSettings(dim=8).model_dump_json()
    cosines = 4 * 64 * 5000
    assert 2 * cosines < logits_bytes(model, 5000, 64) < 8 * cosines
    assert logits_bytes(model, 2500, 64) == pytest.approx(logits_bytes(model, 5000, 64) / 2, rel=0.01)


TAKEN = """
import sys
from pathlib import Path
import torch
from damnatio.recipe.files import load
from damnatio.running.planning import probing

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))

recipe = load(sys.argv[1], sys.argv[3:])
probing.set_threads(1)
probing._seconds(recipe, 16, 2, steps=2)  # what is allocated once
before = status("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins anew
probing._seconds(recipe, int(sys.argv[2]), recipe.train.batch, steps=3)
print(status("VmHWM") - before)
"""


@pytest.mark.cli
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("backbone", "retain", "batch"), [("iresnet-small", 1000, 64), ("iresnet-tiny", 100_000, 32)], ids=["net", "head"]
)
def test_a_step_takes_as_much_memory_as_the_formula_says(backbone: str, retain: int, batch: int) -> None:
    """A real training in a process of its own: once the network is the larger part, once the head."""
    words = [
        f"model.backbone={backbone}",
        "model.dim=256",
        "faces.size=64",
        f"faces.identities={retain + 1150}",
        "faces.instances=1",
        "faces.min_instances=1",
        "faces.max_instances=2",
        f"partitions.retain={retain}",
        "partitions.control=1",
        "partitions.test=2",
        "partitions.development=2",
        "partitions.distractors=2",
        "partitions.scales={S1: 2}",
        "partitions.min_images=1",
        "partitions.forget_min_images=2",
        "forget.scales=[S1]",
        f"train.batch={batch}",
        "threads=1",
    ]
    recipe = load("demo", words)
    work = Work(recipe, counts_of(recipe, at_hand(recipe)))
    train = next(piece for piece in work.pieces if piece.stage == "train")
    said = work.memory(train, 1).total
    code = [sys.executable, "-c", TAKEN, "demo", str(work.counts.classes), *words]
    taken = int(subprocess.run(code, capture_output=True, text=True, check=True).stdout)
    assert taken / FACTOR < said < taken * FACTOR, (said / 1e6, taken / 1e6)


def test_nothing_is_computed() -> None:
    """A network of a terabyte of activations is counted on any machine."""
    found = cost("iresnet100", 112, 512, 16_384)
    assert found.activations > 1e12
    assert torch.get_default_dtype() == torch.float32
