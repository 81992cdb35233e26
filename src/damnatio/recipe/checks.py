"""The checks of a recipe that need torch: the names of parts, the settings of methods, the weights of f*, and
where a network can be cut. `recipe.files` imports this module when it composes a recipe, and not before."""

from pathlib import Path

import torch

from damnatio.backbones import BACKBONES
from damnatio.backbones.cutting import cut
from damnatio.methods.base import schedule_of
from damnatio.models.importing import import_model, resolved
from damnatio.models.store import ONNX, new_head
from damnatio.recipe.schema import Recipe


def settled(recipe: Recipe, source: str | Path) -> Recipe:
    """The recipe with the backbone and the dimension of its weights. A misspelt part is an error now, and not after an
    hour of earlier stages; `source` names the recipe there."""
    if recipe.model.weights and recipe.model.weights.expanduser().exists():  # else the import says what is missing
        recipe = recipe.model_copy(update={"model": resolved(recipe.model, recipe.faces.size)})
    _check_network(recipe)
    for variant in {*recipe.forget.methods, *recipe.forget.settings}:
        schedule_of(recipe, variant, source)
    return recipe


def _check_network(recipe: Recipe) -> None:
    new_head(recipe.model, classes=1)
    imported = recipe.model.backbone == ONNX and recipe.model.weights
    backbone = None if imported else BACKBONES.get(recipe.model.backbone)
    if recipe.forget.freeze is not None:
        with torch.device("cpu" if backbone is None else "meta"):
            network = backbone(recipe.faces.size, recipe.model.dim) if backbone else import_model(recipe.model)[0]
            cut(network, recipe.forget.freeze)
