"""MobileFaceNet (Chen et al. 2018, arXiv 1804.07573): inverted bottlenecks and a learned global pooling.

    bottleneck(x) = BN(conv1x1(PReLU(BN(dw3x3_s(PReLU(BN(conv1x1(x)))))))) [+ x]

A depthwise convolution as large as the last map replaces average pooling, since the centre of a face says more than its
corners. The modules have the names of FaceX-Zoo's MobileFaceNet, so that its weights load at size 112, dim 512.
"""

import math
from collections import OrderedDict

from torch import Tensor, nn

from damnatio.backbones import BACKBONES
from damnatio.backbones.cutting import CuttableSequence
from damnatio.support.errors import DamnatioError


class ConvBlock(nn.Sequential):
    """conv -> BN -> PReLU, or conv -> BN if `linear`; the padding keeps the side at stride 1."""

    def __init__(
        self, inputs: int, width: int, kernel: int, *, stride: int = 1, groups: int = 1, linear: bool = False
    ) -> None:
        layers: dict[str, nn.Module] = {
            "conv": nn.Conv2d(inputs, width, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False),
            "bn": nn.BatchNorm2d(width),
        }
        if not linear:
            layers["prelu"] = nn.PReLU(width)
        super().__init__(OrderedDict(layers))


class GlobalDepthwise(nn.Sequential):
    """One learned weight per cell and channel: C x side x side -> C x 1 x 1, linear."""

    def __init__(self, width: int, side: int) -> None:
        conv = nn.Conv2d(width, width, side, groups=width, bias=False)
        super().__init__(OrderedDict(conv=conv, bn=nn.BatchNorm2d(width)))


class Bottleneck(nn.Sequential):
    """Widen to `groups` channels, filter each by itself, project back without activation."""

    def __init__(self, inputs: int, width: int, groups: int, stride: int) -> None:
        super().__init__(
            OrderedDict(
                conv=ConvBlock(inputs, groups, 1),
                conv_dw=ConvBlock(groups, groups, 3, stride=stride, groups=groups),
                project=ConvBlock(groups, width, 1, linear=True),
            )
        )


class Residuals(nn.Module):
    """`count` bottlenecks, each added to its input."""

    def __init__(self, count: int, width: int, groups: int) -> None:
        super().__init__()
        self.model = nn.Sequential(*(Bottleneck(width, width, groups, stride=1) for _ in range(count)))

    def forward(self, x: Tensor) -> Tensor:
        for bottleneck in self.model:
            x = x + bottleneck(x)
        return x


@BACKBONES.register("mobilefacenet")
class MobileFaceNet(CuttableSequence):
    """N x 3 x size x size -> N x dim in 1.2 M parameters at size 112, dim 512."""

    USUAL = "conv_4"

    def __init__(self, size: int, dim: int) -> None:
        if size < 16:
            raise DamnatioError(
                f"MobileFaceNet halves its input four times: {size} pixels are too few; give at least 16."
            )
        super().__init__(
            OrderedDict(
                conv1=ConvBlock(3, 64, 3, stride=2),
                conv2_dw=ConvBlock(64, 64, 3, groups=64),
                conv_23=Bottleneck(64, 64, groups=128, stride=2),
                conv_3=Residuals(4, 64, groups=128),
                conv_34=Bottleneck(64, 128, groups=256, stride=2),
                conv_4=Residuals(6, 128, groups=256),
                conv_45=Bottleneck(128, 128, groups=512, stride=2),
                conv_5=Residuals(2, 128, groups=256),
                conv_6_sep=ConvBlock(128, 512, 1),
                conv_6_dw=GlobalDepthwise(512, side=math.ceil(size / 16)),
                flatten=nn.Flatten(),
                linear=nn.Linear(512, dim, bias=False),
                bn=nn.BatchNorm1d(dim),
            )
        )
