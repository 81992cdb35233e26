"""Between stages 4 and 5: the part of f* that no method changes, run once over every image that training reads.

    f(x) = tail(trunk(x)),    trunk: the stages up to a named one, frozen and in evaluation mode

The trunk gives an image the same activations at every step, so they are kept on disk, of the image and of its mirror
image, in half precision; the training loop reads them where it would read pixels, and trains the tail.
"""

import math
import shutil
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.lib.format import write_array_header_1_0
from numpy.typing import NDArray
from torch import Tensor, nn

from damnatio.backbones.vit import VisionTransformer
from damnatio.errors import DamnatioError
from damnatio.exchange.graph import GraphNetwork
from damnatio.inputs import Inputs, Mask, Rows
from damnatio.progress import progress
from damnatio.workspace import checked

ACTIVATIONS, ROWS = "activations.npy", "rows.npy"


def split(backbone: nn.Module, stage: str) -> tuple[nn.Module, nn.Module]:
    """(trunk, tail), the trunk up to and including `stage`. Both hold the parameters of the backbone itself, under
    the names they have there, and are in its mode."""
    trunk, tail = _cut(backbone, stage)
    return trunk.train(backbone.training), tail.train(backbone.training)


def usual_stage(backbone: nn.Module) -> str | None:
    """Where a network is cut if nobody says it: with about the last quarter of its depth left to train."""
    if isinstance(backbone, VisionTransformer):
        return f"blocks.{len(backbone.blocks) * 3 // 4}"
    if isinstance(backbone, GraphNetwork):
        stages = backbone.stages()
        return stages[len(stages) * 3 // 4] if stages else None
    names = {name for name, _ in backbone.named_children()}
    return next((stage for stage in ("conv_4", "layer3", "layers.5") if stage.split(".")[0] in names), None)


def _cut(backbone: nn.Module, stage: str) -> tuple[nn.Module, nn.Module]:
    if isinstance(backbone, VisionTransformer):
        names = ["patch_embed", *(f"blocks.{i}" for i in range(len(backbone.blocks)))]
        blocks = _place(stage, names)
        return _Tokens(backbone, blocks), _AfterTokens(backbone, blocks)
    if isinstance(backbone, GraphNetwork):
        _place(stage, backbone.stages())
        return backbone.cut(stage)
    if not isinstance(backbone, nn.Sequential):
        raise DamnatioError(
            f"forget.freeze: a {type(backbone).__name__} is no sequence of stages and cannot be cut after '{stage}'."
        )
    children = list(backbone.named_children())
    outer, _, inner = stage.partition(".")
    if inner:  # within a stage that is a sequence itself
        place = _place(outer, [name for name, _ in children])
        first, second = _cut(children[place][1], inner)
        before, after = children[:place], children[place + 1 :]
        return (
            nn.Sequential(OrderedDict([*before, (outer, first)])),
            nn.Sequential(OrderedDict([(outer, second), *after])),
        )
    cut = _place(stage, [name for name, _ in children[:-1]]) + 1
    return nn.Sequential(OrderedDict(children[:cut])), nn.Sequential(OrderedDict(children[cut:]))


def _place(stage: str, names: list[str]) -> int:
    if stage not in names:
        raise DamnatioError(f"forget.freeze: there is no stage '{stage}'. This network has {', '.join(names)}.")
    return names.index(stage)


class _Tokens(nn.Module):
    """The first blocks of a ViT: images -> tokens."""

    def __init__(self, whole: VisionTransformer, blocks: int) -> None:
        super().__init__()
        self.patch_embed, self.pos_embed, self.blocks = whole.patch_embed, whole.pos_embed, whole.blocks[:blocks]

    def forward(self, x: Tensor) -> Tensor:
        t: Tensor = self.patch_embed(x) + self.pos_embed
        for block in self.blocks:
            t = block(t)
        return t


class _AfterTokens(VisionTransformer):
    """The other blocks and the head of a ViT, for tokens that bear their positions already. In training, tokens are
    hidden from these blocks only: the trunk has seen them all."""

    def __init__(self, whole: VisionTransformer, blocks: int) -> None:
        nn.Module.__init__(self)
        self.mask_ratio, self.checkpointing = whole.mask_ratio, whole.checkpointing
        self.patch_embed = nn.Identity()  # type: ignore[assignment]
        self.register_buffer("pos_embed", torch.zeros_like(whole.pos_embed[:, :1, :1]), persistent=False)
        self.mask_token = whole.mask_token
        self.blocks = nn.ModuleList()
        for name, block in list(whole.blocks.named_children())[blocks:]:
            self.blocks.add_module(name, block)
        self.norm, self.feature = whole.norm, whole.feature


def keep_activations(
    trunk: nn.Module, images: Inputs, rows: Rows, batch: int, folder: Path, say: Callable[[str], None]
) -> None:
    """The trunk's activations of the images at these rows, and of their mirror images, into `folder`."""
    rows = np.sort(rows)
    device = next(trunk.parameters()).device
    trunk.eval()

    def run(part: Rows, mirrored: bool) -> NDArray[np.float16]:
        mask = np.full(len(part), mirrored)
        return _as_kept(trunk(images.prepare(images.read(part, mask), device)))

    with torch.inference_mode():
        shape = (len(rows), 2, *run(rows[:1], False).shape[1:])
        _check_room(2 * math.prod(shape), len(rows), folder, say)
        with (folder / ACTIVATIONS).open("wb") as file, progress("trunk", len(rows), "images") as advance:
            # a stream and not a memory map: a full disk is an error there, and a signal here
            write_array_header_1_0(file, {"descr": "<f2", "fortran_order": False, "shape": shape})
            for start in range(0, len(rows), batch):
                part = rows[start : start + batch]
                both = np.stack([run(part, False), run(part, True)], axis=1)
                if not np.isfinite(both).all():
                    raise DamnatioError(
                        "The trunk's activations exceed what half precision holds (65,504): freeze another stage."
                    )
                file.write(np.ascontiguousarray(both).data)
                advance(len(part))
    np.save(folder / ROWS, rows)


def _check_room(size: int, images: int, folder: Path, say: Callable[[str], None]) -> None:
    say(f"  the activations of {images:,} images and of their mirror images take {size / 1e9:.2f} GB")
    free = shutil.disk_usage(folder).free
    if size > free:
        raise DamnatioError(
            f"The trunk's activations take {size / 1e9:.2f} GB and the disk of {folder} has {free / 1e9:.2f} GB left: "
            "make room, or freeze a stage that gives smaller maps."
        )


def _as_kept(activations: Tensor) -> NDArray[np.float16]:
    """Maps with their channels last, as the networks compute them; tokens as they are."""
    ordered = activations.permute(0, 2, 3, 1) if activations.ndim == 4 else activations
    kept: NDArray[np.float16] = ordered.half().cpu().numpy()
    return kept


class Activations:
    """What `keep_activations` left in a folder, as inputs of the tail."""

    def __init__(self, folder: Path) -> None:
        self._rows: Rows = np.load(checked(folder / ROWS))
        self._kept: NDArray[np.float16] = np.load(checked(folder / ACTIVATIONS), mmap_mode="r")

    def read(self, rows: Rows, mirrored: Mask | None = None) -> NDArray[np.float16]:
        places = np.searchsorted(self._rows, rows).clip(max=len(self._rows) - 1)
        strangers = rows[self._rows[places] != rows]
        if len(strangers):
            raise DamnatioError(f"No activations were kept of image {strangers[0]}: it is not one that training reads.")
        view = np.zeros(len(rows), dtype=np.int64) if mirrored is None else mirrored.astype(np.int64)
        return np.asarray(self._kept[places, view])

    def prepare(self, entries: NDArray[np.float16], device: torch.device) -> Tensor:
        x = torch.from_numpy(entries).to(device).float()
        return x.permute(0, 3, 1, 2) if x.ndim == 4 else x
