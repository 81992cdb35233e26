import torch

from damnatio.backbones import BACKBONES


def test_tensor_names_and_shapes_are_insightfaces() -> None:
    with torch.device("meta"):
        state = BACKBONES.get("mbf")(112, 512).state_dict()
    assert len(state) == 333
    assert {key.split(".")[0] for key in state} == {"layers", "conv_sep", "features"}
    shapes = {
        "layers.0.layers.0.weight": (128, 3, 3, 3),
        "layers.0.layers.1.running_mean": (128,),
        "layers.0.layers.2.weight": (128,),
        "layers.1.layers.0.weight": (128, 2, 3, 3),  # 64 groups of two channels, not depthwise
        "layers.2.layers.0.layers.0.weight": (128, 128, 1, 1),
        "layers.2.layers.1.layers.0.weight": (128, 1, 3, 3),
        "layers.3.layers.3.layers.2.layers.1.bias": (128,),
        "layers.4.layers.2.layers.0.weight": (256, 256, 1, 1),
        "layers.5.layers.5.layers.0.layers.2.weight": (256,),
        "layers.6.layers.0.layers.0.weight": (512, 256, 1, 1),
        "layers.7.layers.1.layers.2.layers.0.weight": (256, 256, 1, 1),
        "conv_sep.layers.0.weight": (512, 256, 1, 1),
        "features.layers.0.layers.0.weight": (512, 1, 7, 7),
        "features.layers.2.weight": (512, 512),
        "features.layers.3.running_var": (512,),
    }
    assert {key: tuple(state[key].shape) for key in shapes} == shapes
