"""Stage 4: f*, trained on the retain identities or imported from its weights."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from damnatio.faces.base import Faces
from damnatio.heads.base import Head
from damnatio.losses.base import directions
from damnatio.models.card import Card
from damnatio.models.importing import import_model, weights_file
from damnatio.models.inputs import Pixels, embed_inputs
from damnatio.models.store import HEAD, load_head, new_backbone, new_head, save_model
from damnatio.partitions import Partitions
from damnatio.recipe.schema import ModelSettings, Recipe
from damnatio.support import processes
from damnatio.support.devices import device
from damnatio.support.errors import DamnatioError
from damnatio.training.loop import Job


def original_job(recipe: Recipe, faces: Faces, partitions: Partitions) -> Job:
    """The training of f*: the recipe's backbone and head, on the retain identities."""
    rows, labels = partitions.retain()
    model = recipe.model
    card = Card(backbone=model.backbone, dim=model.dim, size=faces.size, origin=f"trained by {recipe.name}")
    card = card.fed_as(model)
    torch.manual_seed(recipe.seed)
    return Job(
        title="f*",
        backbone=new_backbone(model.backbone, faces.size, model.dim).to(device()),
        head=new_head(model, int(labels.max()) + 1).to(device()),
        card=card,
        inputs=Pixels(faces, card),
        rows=rows,
        labels=labels,
        settings=recipe.train,
        lr=recipe.train.lr,
        seed=recipe.seed,
    )


def import_original(recipe: Recipe, faces: Faces, partitions: Partitions, folder: Path) -> None:
    """Write the network of `model.weights` to `folder` as the f* of this run, with a head for the retain identities."""
    backbone, card = import_model(recipe.model, faces.size)
    rows, labels = partitions.retain()
    units = embed_inputs(
        backbone,
        Pixels(faces, card),
        dim=card.dim,
        rows=rows,
        batch=recipe.evaluate.embed_batch,
        title="import f*",
    )
    processes.from_main(lambda: write_imported(recipe.model, backbone, card, units, labels, folder))


def write_imported(
    settings: ModelSettings,
    backbone: nn.Module,
    card: Card,
    units: NDArray[np.float32],
    labels: NDArray[np.int64],
    folder: Path,
) -> None:
    """Write an imported network as f*. `units` are its embeddings of the retain images, and `labels` their classes."""
    means = directions(torch.from_numpy(units), torch.from_numpy(labels), int(labels.max()) + 1)
    save_model(backbone, _head(settings, means), card, folder)


def _head(settings: ModelSettings, means: torch.Tensor) -> Head:
    """The head beside the weights, if it belongs to these identities. Without a head there, the class vectors are the
    means of the retain identities."""
    folder = weights_file(settings).parent
    if not (folder / HEAD).is_file():
        head = new_head(settings, len(means)).to(device())
        with torch.no_grad():
            head.weight.copy_(means)
        return head
    head = load_head(settings, folder)
    vectors = head.class_vectors().detach().cpu()
    if vectors.shape == means.shape:
        own = (means @ vectors.T).argmax(dim=1) == torch.arange(len(means))
        if own.float().mean() > 0.25:  # class vectors of strangers would be nearest to about one mean, by chance
            return head
    raise DamnatioError(
        f"{folder / HEAD} holds {len(vectors)} class vectors, and they are not those of the {len(means)} retain "
        "identities here: put the weights into a folder without a head. The class vectors then start from the means of "
        "the retain images."
    )
