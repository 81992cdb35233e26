"""The report of a run: on every model whose evaluation for this recipe is finished, now or in an earlier call."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.evaluation.rates import VERSION
from damnatio.methods import METHODS
from damnatio.methods.base import method_settings
from damnatio.pipeline import Pipeline, plain
from damnatio.recipe.schema import Recipe
from damnatio.support.code import behind
from damnatio.support.errors import DamnatioError
from damnatio.support.manifests import manifest_of, section_of
from damnatio.workspace import Absent, Output, Workspace

REPORT = "report"

Models = dict[tuple[str, str], Output]
"""evaluations by scale and variant"""


class NothingToReportError(DamnatioError):
    """No evaluation is finished."""


@dataclass(frozen=True)
class Published:
    """The folder of a report, and its recipe, which also names the variants and scales that it keeps from before."""

    folder: Path
    recipe: Recipe


def needed(pipeline: Pipeline, *, faces_shown: bool = True) -> tuple[Models, dict[str, Output]]:
    """What a report is made from: the evaluations, and the rest by name."""
    evaluations = {model: pipeline.evaluation(*model) for model in pipeline.models()}
    inputs = {"partitions": pipeline.partitions()}
    if faces_shown:
        inputs["examples"] = pipeline.examples()
    return evaluations, inputs


def publish(pipeline: Pipeline, name: str = REPORT, *, faces_shown: bool = True) -> Published:
    """Make what the report is on, and write it. That of an experiment has another `name`, and holds what the experiment
    asks for alone. Without `faces_shown` no figure shows a photograph."""
    asked, inputs = needed(pipeline, faces_shown=faces_shown)
    with pipeline.workspace.holding(name):  # whoever reports last has seen all that was finished
        return _published(pipeline, name, asked, inputs)


def _published(pipeline: Pipeline, name: str, asked: Models, inputs: dict[str, Output]) -> Published:
    found = {model: output for model, output in asked.items() if not isinstance(output, Absent)}
    if not found:
        raise NothingToReportError("There is nothing to report: no evaluation is finished.")
    kept, recipe = _kept(pipeline, asked) if name == REPORT else ({}, pipeline.recipe)
    if len(found) < len(asked):  # something failed: the report is on the rest
        methods = [variant for variant in recipe.forget.methods if variant in {known for _, known in {**found, **kept}}]
        recipe = recipe.model_copy(update={"forget": recipe.forget.model_copy(update={"methods": methods})})
    found |= kept
    models = [(scale, variant) for scale in recipe.forget.scales for variant in (ORIGINAL, *recipe.forget.methods)]
    models = [model for model in models if model in found]
    inputs = {name: output for name, output in inputs.items() if not isinstance(output, Absent)}
    inputs |= {f"{scale}-{variant}": found[scale, variant] for scale, variant in models}

    def build(folder: Path) -> None:
        from damnatio.reporting.drawing import Evaluated
        from damnatio.reporting.report import write_report

        evaluated = [
            Evaluated(scale, variant, found[scale, variant].path, _training(pipeline.workspace, found[scale, variant]))
            for scale, variant in models
        ]
        examples = inputs["examples"].path if "examples" in inputs else None
        write_report(recipe, inputs["partitions"].path, examples, evaluated, folder)

    code = behind(build)
    for variant in recipe.forget.methods:  # the page says which methods are reconstructions, and draws some of them
        code |= METHODS.code(method_settings(recipe, variant).method)
    folder = pipeline.workspace.publish(name, {"recipe": plain(recipe), "results": VERSION}, inputs, build, code)
    return Published(folder, recipe)


def _kept(pipeline: Pipeline, asked: Models) -> tuple[Models, Recipe]:
    """The finished evaluations that differ from those asked for only in variant or scale, and the recipe that names
    them too.

    A variant for which this recipe has other settings, or none, keeps the settings of the last report."""
    recipe, workspace = pipeline.recipe, pipeline.workspace
    last = _forget_section(manifest_of(workspace.folder / REPORT))
    before: dict[str, list[str]] = {}
    for name, manifest in workspace.finished("7-evaluate"):
        scale = str(section_of(manifest, "settings").get("scale"))
        variant = name.removeprefix(f"{scale}-")
        if scale in recipe.partitions.scales and (scale, variant) not in asked:
            before.setdefault(variant, []).append(scale)
    kept: Models = {}
    settings = dict(recipe.forget.settings)
    for variant, scales in before.items():
        tries = [settings.get(variant, {})]
        if variant not in (ORIGINAL, *recipe.forget.methods):  # a name stands for one variant in a report
            tries.append(last["settings"].get(variant, {}))
        for own in tries:
            finished = {(scale, variant): pipeline.finished(scale, variant, own) for scale in scales}
            if any(finished.values()):
                kept |= {model: output for model, output in finished.items() if output}
                settings |= {variant: own} if own else {}
                break
    if not kept:
        return kept, recipe
    listed = ", ".join(f"{scale} {variant}" for scale, variant in kept)
    workspace.say(f"{REPORT:<13} {'':<12} kept     {listed}: finished before, with the same settings")
    shown = [variant for variant in (*last["methods"], *recipe.forget.methods, *before) if variant != ORIGINAL]
    named = {variant for _, variant in (*asked, *kept)}
    methods = [variant for variant in dict.fromkeys(shown) if variant in named]
    if named <= {ORIGINAL, *recipe.forget.methods}:
        methods = recipe.forget.methods
    scales = [scale for scale in recipe.partitions.scales if scale in {name for name, _ in (*asked, *kept)}]
    both = {"methods": methods, "scales": scales, "settings": settings}
    return kept, recipe.model_copy(update={"forget": recipe.forget.model_copy(update=both)})


def _training(workspace: Workspace, evaluation: Output) -> Path | None:
    """The folder of the model that was evaluated: the output whose content its embeddings were made from."""
    inputs = section_of(evaluation.manifest, "inputs")
    for stages, name in ((("6-embed",), "embeddings"), (("4-train", "5-forget"), "model")):
        wanted = inputs.get(name)
        folders = [path for stage in stages for path in sorted((workspace.folder / stage).glob("[!.]*"))]
        outputs = [Output(path, manifest["key"]) for path in folders if (manifest := manifest_of(path))]
        found = next((output for output in outputs if output.content == wanted), None)
        if found is None:
            return None
        inputs = section_of(found.manifest, "inputs")
    return found.path if found else None


def _forget_section(report: dict[str, Any]) -> dict[str, Any]:
    """The methods and their settings in the recipe of a report's manifest."""
    forget = section_of(section_of(section_of(report, "settings"), "recipe"), "forget")
    return {"methods": forget.get("methods", []), "settings": forget.get("settings", {})}
