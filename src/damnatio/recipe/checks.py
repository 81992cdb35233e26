"""Checks of a recipe that need torch: names of parts, and where a network can be cut."""

from damnatio.recipe.schema import Recipe


def check_names(recipe: Recipe) -> None:
    """A misspelt part is told now, not after an hour of the stages before it."""
    from damnatio.backbones import BACKBONES
    from damnatio.models.store import ONNX, new_head

    new_head(recipe.model, classes=1)
    imported = recipe.model.backbone == ONNX and recipe.model.weights
    backbone = None if imported else BACKBONES.get(recipe.model.backbone)
    if recipe.forget.freeze is not None:
        import torch

        from damnatio.backbones.cutting import cut
        from damnatio.models.importing import import_model

        with torch.device("cpu" if backbone is None else "meta"):
            network = backbone(recipe.faces.size, recipe.model.dim) if backbone else import_model(recipe.model)[0]
            cut(network, recipe.forget.freeze)
