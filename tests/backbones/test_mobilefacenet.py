import io
from collections import defaultdict

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn

from damnatio.backbones.mobilefacenet import MobileFaceNet
from tests.assets import WEIGHTS, lfw, needs_faces, needs_weights


def published() -> MobileFaceNet:
    model = MobileFaceNet(112, 512).eval()
    model.load_state_dict(load_file(WEIGHTS), strict=True)
    return model


def faces(identities: int, images: int) -> tuple[Tensor, Tensor]:
    """The first `images` of the first `identities` that have as many, as the weights want them; and their labels."""
    people: dict[str, list[bytes]] = defaultdict(list)
    for identity, content in lfw():
        people[identity].append(content)
        if sum(len(found) >= images for found in people.values()) == identities:
            break
    chosen = [found[:images] for found in people.values() if len(found) >= images]
    pixels = [np.asarray(Image.open(io.BytesIO(content))) for found in chosen for content in found]
    bgr = torch.from_numpy(np.stack(pixels)).flip(3).permute(0, 3, 1, 2)
    return (bgr.float() - 127.5) / 128, torch.arange(identities).repeat_interleave(images)


@needs_weights
def test_names_and_shapes_are_those_of_the_published_file() -> None:
    with torch.device("meta"):
        ours = MobileFaceNet(112, 512).state_dict()
    theirs = load_file(WEIGHTS)
    assert {name: t.shape for name, t in ours.items()} == {name: t.shape for name, t in theirs.items()}


@needs_weights
@needs_faces
def test_published_weights_tell_faces_apart() -> None:
    x, labels = faces(identities=8, images=5)
    with torch.inference_mode():
        embeddings = nn.functional.normalize(published()(x))
    cosines = embeddings @ embeddings.T
    same = labels[:, None] == labels[None, :]
    mated, non_mated = cosines[same & ~torch.eye(40, dtype=torch.bool)], cosines[~same]
    assert mated.mean() - non_mated.mean() > 0.4
    assert abs(float(non_mated.mean())) < 0.1


def test_the_last_kernel_covers_the_last_map() -> None:
    with torch.device("meta"):
        sides = {size: MobileFaceNet(size, 8).state_dict()["conv_6_dw.conv.weight"].shape[-1] for size in (16, 40, 112)}
    assert sides == {16: 1, 40: 3, 112: 7}
    assert MobileFaceNet(40, 8).eval()(torch.zeros(1, 3, 40, 40)).shape == (1, 8)
