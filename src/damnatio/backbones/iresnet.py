"""iResNet: InsightFace's residual network. Each block normalises first, and nothing follows the addition.

    block(x) = BN(conv3x3_s(PReLU(BN(conv3x3(BN(x)))))) + shortcut(x)
    f(x)     = BN1d(FC(flatten(BN(layers(PReLU(BN(conv3x3(x))))))))

Each of the four layers halves the side: the second convolution of its first block has stride 2, and the shortcut of
that block is BN(conv1x1_2(x)) instead of x.
The modules have InsightFace's names (recognition/arcface_torch/backbones/iresnet.py), so that its weights load.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from damnatio.backbones import BACKBONES
from damnatio.backbones.cutting import CuttableSequence
from damnatio.support.errors import DamnatioError

WIDTHS = (64, 128, 256, 512)


class IBasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is the identity unless the block halves the side."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.prelu = nn.PReLU(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(width)
        self.downsample = (
            nn.Sequential(nn.Conv2d(inputs, width, 1, stride=stride, bias=False), nn.BatchNorm2d(width))
            if stride > 1
            else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        residual = self.bn3(self.conv2(self.prelu(self.bn2(self.conv1(self.bn1(x))))))
        out: Tensor = residual + self.downsample(x)
        return out


class FullPrecisionLinear(nn.Linear):
    """A linear layer in the precision of its weights, even under autocast, as `fc` is in InsightFace."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.to(self.weight.dtype))


class IResNet(CuttableSequence):
    """N x 3 x size x size -> N x dim, with `depths` blocks of `widths` channels in the four layers. With `stem` 2 the
    first convolution halves the side too: the wide maps of the first block take most of the time of a small network."""

    USUAL = "layer3"

    def __init__(self, depths: Sequence[int], widths: Sequence[int], size: int, dim: int, stem: int = 1) -> None:
        if size < 16:
            raise DamnatioError(f"An iResNet halves its input four times: {size} pixels are too few; give at least 16.")
        cells = math.ceil(size / (16 * stem)) ** 2  # a convolution of stride 2 leaves ceil(side / 2)
        inputs = (widths[0], *widths)
        features = nn.BatchNorm1d(dim)
        features.weight.requires_grad_(False)  # as in InsightFace: every dimension keeps unit variance
        layers = {
            "conv1": nn.Conv2d(3, widths[0], 3, stride=stem, padding=1, bias=False),
            "bn1": nn.BatchNorm2d(widths[0]),
            "prelu": nn.PReLU(widths[0]),
        }
        for i, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            blocks = [IBasicBlock(width if j else inputs[i], width, stride=1 if j else 2) for j in range(depth)]
            layers[f"layer{i + 1}"] = nn.Sequential(*blocks)
        layers |= {
            "bn2": nn.BatchNorm2d(widths[-1]),
            "flatten": nn.Flatten(),
            "fc": FullPrecisionLinear(widths[-1] * cells, dim),
            "features": features,
        }
        super().__init__(OrderedDict(layers))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight, std=0.1)  # as in InsightFace


@BACKBONES.register("iresnet18")
def iresnet18(size: int, dim: int) -> nn.Module:
    """24.0 M parameters at size 112, dim 512."""
    return IResNet((2, 2, 2, 2), WIDTHS, size=size, dim=dim)


@BACKBONES.register("iresnet34")
def iresnet34(size: int, dim: int) -> nn.Module:
    """34.1 M parameters at size 112, dim 512: the paper's backbone."""
    return IResNet((3, 4, 6, 3), WIDTHS, size=size, dim=dim)


@BACKBONES.register("iresnet50")
def iresnet50(size: int, dim: int) -> nn.Module:
    """43.6 M parameters at size 112, dim 512."""
    return IResNet((3, 4, 14, 3), WIDTHS, size=size, dim=dim)


@BACKBONES.register("iresnet100")
def iresnet100(size: int, dim: int) -> nn.Module:
    """65.2 M parameters at size 112, dim 512."""
    return IResNet((3, 13, 30, 3), WIDTHS, size=size, dim=dim)


@BACKBONES.register("iresnet-small")
def iresnet_small(size: int, dim: int) -> nn.Module:
    """One block per layer at half the width; it trains in minutes on a CPU."""
    return IResNet((1, 1, 1, 1), (32, 64, 128, 256), size=size, dim=dim)


@BACKBONES.register("iresnet-tiny")
def iresnet_tiny(size: int, dim: int) -> nn.Module:
    """One block per layer at a quarter of the width, for demonstrations and tests on a CPU."""
    return IResNet((1, 1, 1, 1), (16, 32, 64, 128), size=size, dim=dim)


@BACKBONES.register("iresnet-quick")
def iresnet_quick(size: int, dim: int) -> nn.Module:
    """iresnet-small with a first convolution that halves the side: as quick as iresnet-tiny, with twice its width."""
    return IResNet((1, 1, 1, 1), (32, 64, 128, 256), size=size, dim=dim, stem=2)
