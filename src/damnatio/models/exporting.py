"""Models out: a network becomes the file that its users deploy, with its card beside it.

A state dict keeps its tensor names (`.safetensors`, `.pth`, `.pt`). A network that came as an ONNX graph goes back into
that graph. Any other network is exported to ONNX as one file that takes any number of images.
"""

import logging
import os
import warnings
from pathlib import Path

import torch
from torch import nn

from damnatio.models.card import CARD, Card, write_card
from damnatio.models.gate import ungated
from damnatio.models.maps import method_of, tensors_of
from damnatio.models.onnx.files import TOLERANCE, add_gate, need_onnx, parity_of, write_network
from damnatio.models.onnx.graph import GraphNetwork
from damnatio.support.arrays import save_tensors
from damnatio.support.errors import DamnatioError
from damnatio.support.files import atomic_file, digest_of

INPUT, OUTPUT = "input.1", "embedding"
"""the names in InsightFace's exports"""


def export(backbone: nn.Module, card: Card, path: Path) -> Card:
    """Write the network to a file of the kind that its ending says, and the card beside it; the card as written."""
    network, behind = ungated(backbone)
    parity = None
    if not path.parent.is_dir():
        raise DamnatioError(f"There is no folder {path.parent} to export to.")
    if path.suffix == ".onnx":
        trial = path.with_name(f".{path.stem}.{os.getpid()}.onnx")  # only a sound file may replace one in service
        try:
            if isinstance(network, GraphNetwork):
                write_network(backbone, trial)
            else:
                write_onnx(network, card.size, trial)
                if behind is not None:
                    add_gate(trial, behind)
            parity = parity_of(backbone, trial, card.size)
            if parity > TOLERANCE:
                raise DamnatioError(
                    f"The ONNX file differs from torch by {parity:.1g} of the embedding's length, more than "
                    f"{TOLERANCE:g}: {path} was not written."
                )
            trial.replace(path)
        finally:
            trial.unlink(missing_ok=True)
    elif path.suffix not in (".safetensors", ".pth", ".pt"):
        raise DamnatioError(
            f"{path} ends in none of .onnx, .safetensors, .pth, .pt: give a file with one of these endings."
        )
    elif isinstance(network, GraphNetwork):
        raise DamnatioError(f"The network is an ONNX graph, which {path.suffix} cannot hold: export it to .onnx.")
    elif path.suffix == ".safetensors":
        save_tensors(tensors_of(backbone), path)
    else:
        with atomic_file(path) as temporary:
            torch.save({name: t.cpu().contiguous() for name, t in tensors_of(backbone).items()}, temporary)
    found = {"sha256": digest_of(path), "parity": parity, "map": method_of(backbone, card.map)}
    written = card.model_copy(update=found)
    write_card(written, path.with_name(f"{path.name}.{CARD}"))
    return written


def write_onnx(module: nn.Module, size: int, path: Path, *, fold: bool = True) -> None:
    """Write any network as an ONNX file. With `fold`, batch normalisations go into the convolutions before them."""
    need_onnx()
    training, place = module.training, next(module.parameters()).device
    batch = torch.export.Dim("batch")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of a missing torchvision, which is not needed
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
