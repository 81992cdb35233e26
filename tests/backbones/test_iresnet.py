import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from damnatio.backbones import BACKBONES
from damnatio.backbones.iresnet import IBasicBlock, IResNet

PARAMETERS = {"iresnet18": 24_025_600, "iresnet34": 34_139_328, "iresnet50": 43_590_848, "iresnet100": 65_156_160}


@pytest.mark.parametrize(("name", "expected"), PARAMETERS.items())
def test_parameter_counts_are_insightfaces(name: str, expected: int) -> None:
    with torch.device("meta"):
        model = BACKBONES.get(name)(112, 512)
    assert sum(p.numel() for p in model.parameters()) == expected


def test_tensor_names_and_shapes_are_insightfaces() -> None:
    with torch.device("meta"):
        state = BACKBONES.get("iresnet50")(112, 512).state_dict()
    shapes = {
        "conv1.weight": (64, 3, 3, 3),
        "bn1.running_mean": (64,),
        "prelu.weight": (64,),
        "layer1.0.bn1.weight": (64,),
        "layer1.0.conv1.weight": (64, 64, 3, 3),
        "layer1.0.downsample.0.weight": (64, 64, 1, 1),
        "layer2.0.bn1.weight": (64,),
        "layer2.0.conv1.weight": (128, 64, 3, 3),
        "layer2.0.bn2.bias": (128,),
        "layer2.0.prelu.weight": (128,),
        "layer2.0.conv2.weight": (128, 128, 3, 3),
        "layer2.0.bn3.running_var": (128,),
        "layer2.0.downsample.0.weight": (128, 64, 1, 1),
        "layer2.0.downsample.1.num_batches_tracked": (),
        "layer3.13.conv2.weight": (256, 256, 3, 3),
        "layer4.2.bn3.weight": (512,),
        "bn2.weight": (512,),
        "fc.weight": (512, 25_088),
        "fc.bias": (512,),
        "features.weight": (512,),
        "features.running_var": (512,),
    }
    assert {name: tuple(state[name].shape) for name in shapes} == shapes
    tops = ("conv1", "bn1", "prelu", "layer1", "layer2", "layer3", "layer4", "bn2", "fc", "features")
    assert {name.split(".")[0] for name in state} == set(tops)
    assert "layer1.1.downsample.0.weight" not in state
    assert "layer3.14.conv1.weight" not in state


@pytest.mark.parametrize("stride", [1, 2])
def test_block_is_its_equation(stride: int) -> None:
    torch.manual_seed(0)
    block = IBasicBlock(6, 6, stride).eval()
    for module in block.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
                nn.init.uniform_(tensor, 0.5, 1.5)
    state = block.state_dict()

    def norm(x: Tensor, name: str) -> Tensor:
        mean, var, weight, bias = (
            state[f"{name}.{part}"].view(1, -1, 1, 1) for part in ("running_mean", "running_var", "weight", "bias")
        )
        out: Tensor = (x - mean) / (var + 1e-5).sqrt() * weight + bias
        return out

    x = torch.randn(2, 6, 7, 7)
    out = norm(F.conv2d(norm(x, "bn1"), state["conv1.weight"], padding=1), "bn2")
    out = torch.where(out > 0, out, out * state["prelu.weight"].view(1, -1, 1, 1))
    out = norm(F.conv2d(out, state["conv2.weight"], stride=stride, padding=1), "bn3")
    short = x if stride == 1 else norm(F.conv2d(x, state["downsample.0.weight"], stride=2), "downsample.1")
    torch.testing.assert_close(block(x), out + short, rtol=1e-4, atol=1e-4)


def test_the_scale_of_the_embedding_is_frozen_at_one_and_its_shift_trained() -> None:
    features = IResNet((1, 1, 1, 1), (8, 8, 8, 8), 16, 4).get_submodule("features")
    assert isinstance(features, nn.BatchNorm1d)
    assert not features.weight.requires_grad
    assert features.weight.eq(1).all()
    assert features.bias.requires_grad


def test_the_last_layer_stays_in_float32_under_autocast() -> None:
    model = IResNet((1, 1, 1, 1), (8, 8, 8, 8), 32, 4)
    with torch.autocast("cpu", torch.bfloat16):
        assert model(torch.randn(2, 3, 32, 32)).dtype == torch.float32


def test_a_stem_of_two_halves_every_map_and_changes_no_weight_but_those_of_the_last_layer() -> None:
    whole, halved = (IResNet((1, 1, 1, 1), (4, 6, 8, 10), 48, 5, stem=stem) for stem in (1, 2))
    x, maps = torch.randn(2, 3, 48, 48), {}
    for name, net in (("whole", whole), ("halved", halved)):
        for layer in ("conv1", "layer1", "layer4"):
            net.get_submodule(layer).register_forward_hook(
                lambda _, __, out, key=(name, layer): maps.update({key: out.shape[-1]})
            )
        assert net(x).shape == (2, 5)
    assert [maps["whole", layer] for layer in ("conv1", "layer1", "layer4")] == [48, 24, 3]
    assert [maps["halved", layer] for layer in ("conv1", "layer1", "layer4")] == [24, 12, 2]
    shapes = [{name: tuple(tensor.shape) for name, tensor in net.state_dict().items()} for net in (whole, halved)]
    assert {name for name in shapes[0] if shapes[0][name] != shapes[1][name]} == {"fc.weight"}
    assert shapes[1]["fc.weight"] == (5, 40)
