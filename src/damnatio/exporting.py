"""Models out: a network to the file that its users deploy, with its card beside it.

A state dict keeps its tensor names (`.safetensors`, `.pth`, `.pt`). A network that came as an ONNX graph goes back into
that graph; any other is exported, as one file that takes any number of images.
"""

import logging
import os
import warnings
from pathlib import Path

import torch
from torch import nn

from damnatio.errors import DamnatioError
from damnatio.exchange.graph import GraphNetwork
from damnatio.exchange.onnx_files import TOLERANCE, need_onnx, parity_of, write_network
from damnatio.models import CARD, Card, save_tensors, write_card
from damnatio.workspace import atomic_file, digest_of

INPUT, OUTPUT = "input.1", "embedding"
"""as in InsightFace's exports"""


def export(backbone: nn.Module, card: Card, path: Path) -> Card:
    """The network into a file of the kind that its ending says; the card as it was written beside it."""
    parity = None
    if not path.parent.is_dir():
        raise DamnatioError(f"There is no folder {path.parent} to export to.")
    if path.suffix == ".onnx":
        trial = path.with_name(f".{path.stem}.{os.getpid()}.onnx")  # a file in service is replaced by a sound one alone
        try:
            if isinstance(backbone, GraphNetwork):
                write_network(backbone, trial)
            else:
                write_onnx(backbone, card.size, trial)
            parity = parity_of(backbone, trial, card.size)
            if parity > TOLERANCE:
                raise DamnatioError(
                    f"The ONNX file differed from torch by {parity:.1g} of the embedding's length: {path} is not "
                    "written."
                )
            trial.replace(path)
        finally:
            trial.unlink(missing_ok=True)
    elif path.suffix not in (".safetensors", ".pth", ".pt"):
        raise DamnatioError(f"{path} ends in none of .onnx, .safetensors, .pth, .pt: these can be written.")
    elif isinstance(backbone, GraphNetwork):
        raise DamnatioError(f"The network is an ONNX graph, which {path.suffix} cannot hold: export it to .onnx.")
    elif path.suffix == ".safetensors":
        save_tensors(backbone.state_dict(), path)
    else:
        with atomic_file(path) as temporary:
            torch.save({name: t.cpu().contiguous() for name, t in backbone.state_dict().items()}, temporary)
    written = card.model_copy(update={"sha256": digest_of(path), "parity": parity})
    write_card(written, path.with_name(f"{path.name}.{CARD}"))
    return written


def write_onnx(module: nn.Module, size: int, path: Path, *, fold: bool = True) -> None:
    """Any network as an ONNX file; with `fold`, batch normalisations go into the convolutions before them."""
    need_onnx()
    training, place = module.training, next(module.parameters()).device
    batch = torch.export.Dim("batch")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # tells of a torchvision that nobody needs
    try:
        with warnings.catch_warnings(), atomic_file(path) as temporary:
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module.cpu().eval(),
                (torch.zeros(2, 3, size, size),),
                temporary,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes=({0: batch},),
                dynamo=True,
                external_data=False,
                optimize=fold,
                verbose=False,
            )
    except Exception as error:
        if isinstance(error, OSError):
            raise
        raise DamnatioError(
            f"torch cannot export the network to ONNX ({type(error).__name__}: {' '.join(str(error).split())[:300]})."
        ) from error
    finally:
        module.to(place).train(training)
