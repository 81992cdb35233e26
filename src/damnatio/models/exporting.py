"""Models out: a network becomes the file that its users deploy, with its card beside it.

A state dict keeps its tensor names (`.safetensors`, `.pth`, `.pt`). A network that came as an ONNX graph goes back into
that graph. Any other network is exported to ONNX as one file that takes any number of images. `.pt2` is a program of
torch.export, which runs without the code of the network.

A gate behind the network goes into the same file. Beside a state dict lies a script of plain torch that rebuilds it.
"""

import logging
import os
import warnings
from pathlib import Path

import torch
from torch import nn

from damnatio.models.card import CARD, Card, write_card
from damnatio.models.gate import Gate, ungated
from damnatio.models.limits import limits_of
from damnatio.models.maps import method_of, tensors_of
from damnatio.models.onnx.files import BATCHES, TOLERANCE, add_gate, need_onnx, parity_of, write_network
from damnatio.models.onnx.graph import GraphNetwork
from damnatio.support.arrays import save_tensors
from damnatio.support.errors import DamnatioError
from damnatio.support.files import atomic_file, digest_of, write_atomically

PROGRAM = ".pt2"
ENDINGS = (".onnx", ".safetensors", ".pth", ".pt", PROGRAM)
STANDALONE = Path(__file__).with_name("standalone.py")
INPUT, OUTPUT = "input.1", "embedding"
"""the names in InsightFace's exports"""


def export(backbone: nn.Module, card: Card, path: Path) -> Card:
    """Write the network to a file of the kind that its ending says, and the card beside it; the card as written."""
    network, behind = ungated(backbone)
    parity = None
    if not path.parent.is_dir():
        raise DamnatioError(f"There is no folder {path.parent} to export to.")
    if path.suffix not in ENDINGS:
        raise DamnatioError(f"{path} ends in none of {', '.join(ENDINGS)}: give a file with one of these endings.")
    if path.suffix in (".onnx", PROGRAM):
        trial = path.with_name(
            f".{path.stem}.{os.getpid()}{path.suffix}"
        )  # only a sound file may replace one in service
        try:
            parity = (
                _write_onnx(backbone, card, trial) if path.suffix == ".onnx" else write_program(backbone, card, trial)
            )
            if parity > TOLERANCE:
                kind = "ONNX file" if path.suffix == ".onnx" else "exported program"
                raise DamnatioError(
                    f"The {kind} differs from torch by {parity:.1g} of the embedding's length, more than "
                    f"{TOLERANCE:g}: {path} was not written."
                )
            trial.replace(path)
        finally:
            trial.unlink(missing_ok=True)
    elif isinstance(network, GraphNetwork):
        raise DamnatioError(f"The network is an ONNX graph, which {path.suffix} cannot hold: export it to .onnx.")
    else:
        if isinstance(behind, Gate):
            write_atomically(script_of(path), STANDALONE.read_bytes())
        if path.suffix == ".safetensors":
            save_tensors(tensors_of(backbone), path)
        else:
            with atomic_file(path) as temporary:
                torch.save({name: t.cpu().contiguous() for name, t in tensors_of(backbone).items()}, temporary)
    found = {"sha256": digest_of(path), "map": method_of(backbone, card.map), "limits": limits_of(backbone)}
    written = card.model_copy(update={**found, "parity": parity if path.suffix == ".onnx" else None})
    write_card(written, path.with_name(f"{path.name}.{CARD}"))
    return written


def script_of(path: Path) -> Path:
    """Where the script lies that rebuilds the gate of a file of weights without damnatio."""
    return path.with_name(f"{path.name}.gate.py")


def _write_onnx(backbone: nn.Module, card: Card, path: Path) -> float:
    network, behind = ungated(backbone)
    if isinstance(network, GraphNetwork):
        write_network(backbone, path)
    else:
        write_onnx(network, card.size, path)
        if behind is not None:
            add_gate(path, behind)
    return parity_of(backbone, path, card.size, BATCHES)


def write_program(module: nn.Module, card: Card, path: Path) -> float:
    """Write a network and its gate as a program of torch.export, for any number of images; how far it is from the
    network on images of noise."""
    training, place = module.training, next(module.parameters()).device
    x = torch.rand(3, 3, card.size, card.size, generator=torch.Generator().manual_seed(0)) * 2 - 1
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            module.cpu().eval()
            program = torch.export.export(module, (x[:2],), dynamic_shapes=({0: torch.export.Dim("batch")},))
            with path.open("wb") as file:
                torch.export.save(program, file)
            ours, theirs = module(x).float(), torch.export.load(str(path)).module()(x)
    except Exception as error:
        if isinstance(error, OSError):
            raise
        raise DamnatioError(
            f"torch.export cannot write the network ({type(error).__name__}: {' '.join(str(error).split())[:300]})."
        ) from error
    finally:
        module.to(place).train(training)
    return float(((ours - theirs).abs().amax(1) / ours.norm(dim=1)).max())


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
