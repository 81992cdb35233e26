"""What every registered backbone promises, whoever wrote it."""

import pytest
import torch
from torch import Tensor, nn

from damnatio.backbones import BACKBONES
from damnatio.support.errors import DamnatioError

HUGE = {"iresnet18", "iresnet34", "iresnet50", "iresnet100", "vit-s", "vit-b"}
CASES = [(name, size) for name in BACKBONES.names() for size in ((32,) if name in HUGE else (16, 32, 48))]
DIM = 24


def build(name: str, size: int) -> nn.Module:
    torch.manual_seed(0)
    return BACKBONES.get(name)(size, DIM)


def images(count: int, size: int) -> Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(1)).clamp(-1, 1)


def settled(model: nn.Module, batch: Tensor) -> nn.Module:
    """In evaluation with the batch's own statistics: at its initial ones an untrained iresnet100 overflows float32."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        model.train()(batch)
    return model.eval()


@pytest.mark.parametrize(("name", "size"), CASES)
def test_training_pass_is_finite_and_reaches_every_parameter(name: str, size: int) -> None:
    model = build(name, size).train()
    out: Tensor = model(images(3, size))
    assert out.shape == (3, DIM)
    assert out.dtype == torch.float32
    assert out.isfinite().all()
    torch.autograd.backward(out, torch.randn(out.shape, generator=torch.Generator().manual_seed(2)))
    for parameter_name, parameter in model.named_parameters():
        if not parameter.requires_grad or (parameter_name == "mask_token" and size == 16):
            continue
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
        # A vector may get exactly nothing: a shift before a batch normalisation is subtracted again.
        assert parameter.ndim == 1 or parameter.grad.any(), parameter_name


@pytest.mark.parametrize(("name", "size"), CASES)
def test_evaluation_is_deterministic_and_image_by_image(name: str, size: int) -> None:
    model, batch = settled(build(name, size), images(8, size)), images(3, size)
    with torch.inference_mode():
        out = model(batch)
        assert out.isfinite().all()
        assert torch.equal(out, model(batch))
        alone = torch.cat([model(batch[i : i + 1]) for i in range(3)])
    assert out.shape == (3, DIM)
    torch.testing.assert_close(alone, out, rtol=1e-3, atol=1e-4 * float(out.abs().max()))


@pytest.mark.parametrize("name", [name for name in BACKBONES.names() if name not in HUGE])
def test_channels_last_and_autocast_change_nothing_but_rounding(name: str) -> None:
    model, batch = settled(build(name, 32), images(8, 32)), images(3, 32)
    with torch.inference_mode():
        out = model(batch)
        with torch.autocast("cpu", torch.bfloat16):
            half = model(batch)
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        last = model(batch.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(last, out, rtol=1e-3, atol=1e-4 * float(out.abs().max()))
    assert nn.functional.cosine_similarity(half.float(), out).min() > 0.99


@pytest.mark.parametrize("name", BACKBONES.names())
def test_too_small_an_image_is_refused_in_a_sentence(name: str) -> None:
    with torch.device("meta"), pytest.raises(DamnatioError, match=r"at least \d+.*\.$"):
        BACKBONES.get(name)(3, DIM)
