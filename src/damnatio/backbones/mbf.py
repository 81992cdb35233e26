"""mbf: InsightFace's MobileFaceNet, wider than FaceX-Zoo's and with tensor names of its own.

    bottleneck(x) = BN(conv1x1(PReLU(BN(dw3x3_s(PReLU(BN(conv1x1(x)))))))) [+ x]

The stem's second convolution is grouped by 64 and not depthwise. The modules have InsightFace's names
(recognition/arcface_torch/backbones/mobilefacenet.py), so that its weights load.
"""

import math
from collections import OrderedDict

from torch import Tensor, nn

from damnatio.backbones import BACKBONES
from damnatio.backbones.cutting import CuttableSequence
from damnatio.support.errors import DamnatioError


class Layers(nn.Module):
    """A sequence under the name `layers`."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


class Conv(Layers):
    """conv -> BN -> PReLU, or conv -> BN if `linear`. The padding keeps the side at stride 1 for kernels of 1 and 3."""

    def __init__(
        self, inputs: int, width: int, kernel: int = 1, *, stride: int = 1, groups: int = 1, linear: bool = False
    ) -> None:
        padding = 1 if kernel == 3 else 0
        layers: list[nn.Module] = [
            nn.Conv2d(inputs, width, kernel, stride=stride, padding=padding, groups=groups, bias=False),
            nn.BatchNorm2d(width),
        ]
        super().__init__(*layers, *([] if linear else [nn.PReLU(width)]))


class Bottleneck(Layers):
    def __init__(self, inputs: int, width: int, groups: int, *, stride: int = 1, residual: bool = False) -> None:
        super().__init__(
            Conv(inputs, groups),
            Conv(groups, groups, 3, stride=stride, groups=groups),
            Conv(groups, width, linear=True),
        )
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return x + out if self.residual else out


class Residuals(Layers):
    def __init__(self, count: int, width: int, groups: int) -> None:
        super().__init__(*(Bottleneck(width, width, groups, residual=True) for _ in range(count)))


@BACKBONES.register("mbf")
class Mbf(CuttableSequence):
    """InsightFace's MobileFaceNet: N x 3 x size x size -> N x dim in 2.1 M parameters at size 112, dim 512."""

    USUAL = "layers.5"

    def __init__(self, size: int, dim: int) -> None:
        if size < 16:
            raise DamnatioError(f"mbf halves its input four times: {size} pixels are too few; give at least 16.")
        layers = nn.Sequential(
            Conv(3, 128, 3, stride=2),
            Conv(128, 128, 3, groups=64),
            Bottleneck(128, 128, 128, stride=2),
            Residuals(4, 128, 128),
            Bottleneck(128, 256, 256, stride=2),
            Residuals(6, 256, 256),
            Bottleneck(256, 256, 512, stride=2),
            Residuals(2, 256, 256),
        )
        side = math.ceil(size / 16)
        pooling = Layers(nn.Conv2d(512, 512, side, groups=512, bias=False), nn.BatchNorm2d(512))
        features = Layers(pooling, nn.Flatten(), nn.Linear(512, dim, bias=False), nn.BatchNorm1d(dim))
        super().__init__(OrderedDict(layers=layers, conv_sep=Conv(256, 512), features=features))
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")  # as in InsightFace
