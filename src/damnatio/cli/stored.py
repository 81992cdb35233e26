"""The evaluations that the folder of a run holds, and the files that each was computed from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from damnatio.embedding import FILE as EMBEDDINGS
from damnatio.evaluation.measuring import ORIGINAL
from damnatio.evaluation.rechecking import Setup
from damnatio.partitions import FILE as PARTITIONS
from damnatio.recipe.schema import EvaluateSettings
from damnatio.running.joint import reports_of
from damnatio.support.errors import DamnatioError
from damnatio.support.manifests import MANIFEST, manifest_of
from damnatio.workspace import Output


@dataclass(frozen=True)
class Stored:
    """One finished evaluation: what it was computed from, and with which settings."""

    scale: str
    variant: str
    setup: Setup
    embeddings: Path
    original: Path | None
    """the embeddings of f*, for an altered model"""
    folder: Path
    report: Path | None
    """the folder of the run's report that shows it"""

    @property
    def experiment(self) -> str:
        """The name of its experiment and seed; empty in a plain run."""
        return self.report.name.removeprefix("report").removeprefix("-") if self.report else ""

    @property
    def name(self) -> str:
        return "-".join(part for part in (self.experiment, self.scale, self.variant) if part)


def stored_evaluations(run: Path) -> list[Stored]:
    """Those that the report shows, f* first at each scale; all finished ones, the latest last, where there is none."""
    evaluations = _outputs(run, "7-evaluate")
    if not evaluations:
        inside = f" Did you mean {run / 'run'}?" if (run / "run/7-evaluate").is_dir() else ""
        raise DamnatioError(f"{run} holds no finished evaluation: run a recipe there to its end first.{inside}")
    try:
        return _found(run, evaluations)
    except DamnatioError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamnatioError(
            f"A {MANIFEST} in {run} does not say how its output was made ({type(error).__name__}: {error}): run the "
            "recipe again in another folder."
        ) from error


def _found(run: Path, evaluations: list[Output]) -> list[Stored]:
    found: list[Stored] = []
    for report in reports_of(run).values():  # one, or one per experiment
        shown = manifest_of(report).get("inputs", {})
        outputs = [output for name in shown if (output := _find(evaluations, shown[name]))]
        models = [_stored(run, evaluations, output, report) for output in outputs]
        found += sorted(models, key=lambda model: (model.scale, model.variant != ORIGINAL))
    if found:
        return found
    latest_last = sorted(evaluations, key=lambda output: output.manifest["made"]["finished"])
    return [_stored(run, evaluations, output, None) for output in latest_last]


def _stored(run: Path, evaluations: list[Output], output: Output, report: Path | None) -> Stored:
    manifest = output.manifest
    settings, inputs = manifest["settings"], manifest["inputs"]
    original = None
    if "original" in inputs:
        theirs = _need(evaluations, inputs["original"], output, run / "7-evaluate").manifest["inputs"]
        original = _file(run, "6-embed", theirs["embeddings"], output) / EMBEDDINGS
    scale = str(settings["scale"])
    known = EvaluateSettings.model_fields.keys()
    return Stored(
        scale=scale,
        variant=output.path.name.removesuffix(f"-{manifest['key'][:8]}").removeprefix(f"{scale}-"),
        setup=Setup(
            partitions=_file(run, "3-partitions", inputs["partitions"], output) / PARTITIONS,
            seed=settings["seed"],
            settings=EvaluateSettings.model_validate({key: settings[key] for key in known if key in settings}),
            scale=scale,
        ),
        embeddings=_file(run, "6-embed", inputs["embeddings"], output) / EMBEDDINGS,
        original=original,
        folder=output.path,
        report=report,
    )


def _file(run: Path, stage: str, wanted: str, output: Output) -> Path:
    return _need(_outputs(run, stage), wanted, output, run / stage).path


def _need(outputs: list[Output], wanted: str, output: Output, place: Path) -> Output:
    found = _find(outputs, wanted)
    if found is None:
        raise DamnatioError(
            f"{output.path} was computed from an output that is no longer in {place}: run the recipe again, or name "
            "the files with --embeddings and --partitions."
        )
    return found


def _find(outputs: list[Output], wanted: str) -> Output | None:
    """The output that a manifest names among its inputs, by its key or by its content."""
    return next((output for output in outputs if wanted in (output.key, output.content)), None)


def _outputs(run: Path, stage: str) -> list[Output]:
    found: list[tuple[Path, Mapping[str, Any]]] = [
        (path, manifest_of(path)) for path in sorted((run / stage).glob("[!.]*"))
    ]
    return [Output(path, manifest["key"]) for path, manifest in found if "key" in manifest]
