"""Stage 4 for a network that exists: f* from its weights, and a head for it from the retain images.

The weights are one file. What lies beside it counts: a `card.json` says how the network is fed, a `head.safetensors`
holds the rows of the retain identities in the order of their labels.
"""

import hashlib
from pathlib import Path

import torch
from torch import nn

from damnatio.embedding import embed
from damnatio.errors import DamnatioError
from damnatio.faces.base import Faces
from damnatio.heads.base import Head
from damnatio.methods.centroid_push import mean_directions
from damnatio.models import (
    CARD,
    HEAD,
    WEIGHTS,
    Card,
    device,
    load_card,
    load_head,
    new_backbone,
    new_head,
    put_tensors,
    read_tensors,
    save_model,
)
from damnatio.partitions import retain_set
from damnatio.recipe import ModelSettings, Recipe
from damnatio.tables import Table

ENDINGS = {".safetensors"}


def import_original(recipe: Recipe, faces: Faces, partitions: Table, folder: Path) -> None:
    """The recipe's `model.weights` as this run's f*."""
    backbone, card = import_model(recipe.model, faces.size)
    rows, labels = retain_set(partitions)
    units = torch.from_numpy(embed(backbone, card, faces, rows, recipe.evaluate.embed_batch, "import f*"))
    means = mean_directions(units, torch.from_numpy(labels), int(labels.max()) + 1)
    save_model(backbone, _head(recipe.model, means), card, folder)


def import_model(settings: ModelSettings, size: int) -> tuple[nn.Module, Card]:
    """The network of `settings.weights`, in evaluation mode, and how it is fed images of `size` pixels."""
    path = weights_file(settings)
    if path.suffix not in ENDINGS:
        raise DamnatioError(f"model.weights: {path} ends in none of {', '.join(sorted(ENDINGS))}: convert it first.")
    origin = f"{path.name} {_digest(path)[:16]}"
    card = Card(backbone=settings.backbone, dim=settings.dim, size=size, origin=origin)
    if (path.parent / CARD).is_file():
        given = load_card(path.parent)
        for key in ("backbone", "dim", "size"):
            if getattr(given, key) != getattr(card, key):
                raise DamnatioError(
                    f"{path.parent / CARD} says {key} {getattr(given, key)} and the recipe {getattr(card, key)}: "
                    f"correct {'faces' if key == 'size' else 'model'}.{key}."
                )
        card = given.model_copy(update={"origin": origin, "sha256": ""})
    backbone = new_backbone(settings.backbone, size, settings.dim)
    put_tensors(backbone, read_tensors(path), path)
    return backbone.to(device()).eval(), card.fed_as(settings)


def weights_file(settings: ModelSettings) -> Path:
    assert settings.weights is not None
    path = settings.weights.expanduser()
    path = path / WEIGHTS if path.is_dir() else path
    if not path.is_file():
        raise DamnatioError(f"model.weights: there is no file {path}.")
    return path


def content_of(settings: ModelSettings) -> dict[str, str]:
    """What an import depends on: the hashes of the weights and of what lies beside them."""
    path = weights_file(settings)
    beside = [path.parent / name for name in (HEAD, CARD)]
    return {"weights": _digest(path)} | {file.name: _digest(file) for file in beside if file.is_file()}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _head(settings: ModelSettings, means: torch.Tensor) -> Head:
    """The head beside the weights, if it is one of these identities; where there is none, its rows are their means."""
    folder = weights_file(settings).parent
    if not (folder / HEAD).is_file():
        head = new_head(settings, len(means)).to(device())
        with torch.no_grad():
            head.weight.copy_(means)
        return head
    head = load_head(settings, folder)
    rows = head.rows().detach().cpu()
    if rows.shape == means.shape:
        own = (means @ rows.T).argmax(dim=1) == torch.arange(len(means))
        if own.float().mean() > 0.25:  # rows of strangers agree with one mean in all, by chance
            return head
    raise DamnatioError(
        f"{folder / HEAD} holds {len(rows)} rows, and they are not those of the {len(means)} retain identities here: "
        "put the weights where no head lies beside them, and its rows start from the means of the retain images."
    )
