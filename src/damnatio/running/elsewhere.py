"""A run whose faces, or whose imported weights, are on another machine.

A report needs the evaluations and nothing that they were made from. Their keys depend on the faces all the same, so
what was recorded of the faces takes their place: the manifest of the run's index. Of the other stages too only the
manifests are needed, `stage.json`, a few kilobytes each; whole are needed `3-partitions` and `7-evaluate`, and
`6-embed/examples-*` for the figure that shows faces. What can be made without faces is made, such as an evaluation of
embeddings that are here; anything else is refused by name.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.faces.detection import at_hand
from damnatio.pipeline import Pipeline
from damnatio.recipe.protocols import PLACES
from damnatio.recipe.schema import Recipe
from damnatio.support.errors import DamnatioError
from damnatio.support.manifests import manifest_of, section_of
from damnatio.workspace import Absent, Output, Workspace

INDEX, MODEL = "1-faces", "4-train"


def pipeline_of(recipe: Recipe, workspace: Workspace) -> Pipeline:
    """The pipeline of a recipe, also where its faces or its weights are not at hand and the run has recorded them."""
    if workspace.finished(INDEX) and not (at_hand(recipe.faces) and _has_weights(recipe)):
        return Elsewhere(recipe, workspace)
    return Pipeline(recipe, workspace)


class Elsewhere(Pipeline):
    def __init__(self, recipe: Recipe, workspace: Workspace) -> None:
        if not _has_weights(recipe):
            stated = {key: getattr(recipe.model, key) for key in recipe.model.model_fields_set - {"weights"}}
            found = _last(workspace, MODEL, ORIGINAL, lambda settings: _holds(section_of(settings, "model"), stated))
            network = {key: found[1]["model"][key] for key in ("backbone", "dim")}
            self._recorded_model: dict[str, Any] = found[1]["model"]
            recipe = recipe.model_copy(update={"model": recipe.model.model_copy(update=network)})
        super().__init__(recipe, workspace)

    def faces(self) -> Output:
        """The index as the run has it. Where the faces themselves are at hand, as any pipeline finds it."""
        source = self.recipe.faces.source
        if at_hand(self.recipe.faces):
            return super().faces()
        if (INDEX, source) not in self._known:
            wanted = self.recipe.faces.model_dump(mode="json", exclude={*PLACES}, exclude_none=True)
            folder, _ = _last(self.workspace, INDEX, source, lambda settings: _holds(settings, wanted))
            self.workspace.say(f"{INDEX:<13} {source:<12} recorded {folder}: the faces are not at hand")
            self._known[INDEX, source] = Output(folder, manifest_of(folder)["key"])
        return self._known[INDEX, source]

    @cached_property
    def _model_settings(self) -> dict[str, Any]:
        return self._recorded_model if not _has_weights(self.recipe) else super()._model_settings

    def examples(self) -> Output:
        """Absent if the run has not drawn its pairs yet: the report is then without the figure that shows faces."""
        try:
            return super().examples()
        except DamnatioError:
            self.workspace.say(f"{'report':<13} {'':<12} without the figure of faces: they are not at hand")
            return Absent(self.workspace.folder / "6-embed" / "examples", "")

    def _can_make(self, stage: str, inputs: Mapping[str, Output]) -> bool:
        """What needs pixels or weights is found or refused; what the stages here suffice for is made."""
        imports = stage == MODEL and not _has_weights(self.recipe)
        return not imports and ("faces" not in inputs or self._has_pixels())

    def _why_missing(self, stage: str, name: str) -> str:
        what = "weights" if self._has_pixels() else "faces"
        return (
            f"{self.workspace.folder} has no {stage} {name} for this recipe and this version of damnatio, and the "
            f"{what} that would make it are not at hand: bring the folder of that output, or the {what}."
        )

    def _has_pixels(self) -> bool:
        return at_hand(self.recipe.faces) or (self.faces().path / "pixels.npy").exists()


def _has_weights(recipe: Recipe) -> bool:
    return recipe.model.weights is None or recipe.model.weights.expanduser().exists()


def _last(
    workspace: Workspace, stage: str, name: str, fits: Callable[[dict[str, Any]], bool]
) -> tuple[Path, dict[str, Any]]:
    """The folder and the settings of the last finished output of this name whose settings fit."""
    found = [
        (str(section_of(manifest, "made").get("finished")), manifest["key"], section_of(manifest, "settings"))
        for known, manifest in workspace.finished(stage)
        if known == name and fits(section_of(manifest, "settings"))
    ]
    if not found:
        raise DamnatioError(
            f"{workspace.folder} has no {stage} of this recipe, and what would make it is not at hand: bring the run's "
            f"{stage} folder, or correct the place of the faces and the weights."
        )
    _, key, settings = max(found, key=lambda each: each[:2])
    return workspace.folder / stage / f"{name}-{key[:8]}", settings


def _holds(recorded: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(recorded.get(key) == value for key, value in wanted.items())
