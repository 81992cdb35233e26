"""The joined report: of the experiments of one recipe, and of finished runs in several folders.

Each experiment has a report of its own; the joined one is made from these reports alone.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damnatio.pipeline import Pipeline
from damnatio.recipe.building import built
from damnatio.recipe.experiments import without_seed
from damnatio.recipe.protocols import other_protocol, other_settings
from damnatio.running.publishing import REPORT, publish
from damnatio.support.code import behind
from damnatio.support.errors import DamnatioError
from damnatio.support.manifests import manifest_of, section_of
from damnatio.workspace import Output, Workspace

if TYPE_CHECKING:
    from damnatio.reporting.joined import Run


def report_name(experiment: str) -> str:
    """The folder of an experiment's report; without experiments, of the one report."""
    return f"{REPORT}-{experiment}" if experiment else REPORT


def joined_report(pipelines: Mapping[str, Pipeline]) -> Path:
    """The report of every experiment of a recipe, and the one that joins them; without experiments, the one report."""
    for name, pipeline in pipelines.items():
        if name:
            pipeline.workspace.say(f"{'experiment':<13} {name}")
        publish(pipeline, report_name(name))
    return join_experiments(pipelines) if list(pipelines) != [""] else pipelines[""].workspace.folder / REPORT


def join_experiments(pipelines: Mapping[str, Pipeline]) -> Path:
    """The report that joins those of the experiments, which are published."""
    name, first = next(iter(pipelines.items()))
    title, workspace = first.recipe.name.removesuffix(f"-{name}"), first.workspace
    with workspace.holding(REPORT):
        folders = {name: workspace.folder / report_name(name) for name in pipelines}
        runs = {name: _run(folder, without_seed(name, _seed(folder))) for name, folder in folders.items()}
        return _publish(workspace, title, "experiments", runs)


def gathered(named: Sequence[tuple[str, Path]], *, beside: bool = False) -> "dict[str, Run]":
    """The finished runs in these folders, by the folder of their report. Each folder comes with the name of its
    experiment; an empty one stands for the folder's own. Runs whose numbers cannot stand in one table are refused,
    unless they only stand `beside` each other."""
    runs: dict[str, Run] = {}
    for name, place in named:
        for inner, folder in reports_of(place).items():
            own = without_seed(inner, _seed(folder))
            of_run = name or ("" if own and len(named) == 1 else without_seed(place.resolve().name, _seed(folder)))
            runs[str(folder)] = _run(folder, "-".join(part for part in (of_run, own) if part))
    for (one, first), (other, second) in combinations(runs.items(), 2) if not beside else ():
        _check(one, first, other, second)
    return runs


def join(runs: "Mapping[str, Run]", workspace: Workspace) -> Path:
    """The joined report of runs that were `gathered`, in a folder of its own."""
    if (workspace.folder / "1-faces").exists() or "recipe" in _settings(workspace.folder / REPORT):
        raise DamnatioError(f"{workspace.folder} is the folder of a run: name another, so that its report stays.")
    return _publish(workspace, workspace.folder.resolve().name, "runs", runs)


def reports_of(run: Path) -> dict[str, Path]:
    """The folder of each report of a run, by the name of its experiment; the one of a plain run has no name."""
    names = _settings(run / REPORT).get("experiments")
    return {str(name): run / f"{REPORT}-{name}" for name in names} if isinstance(names, list) else {"": run / REPORT}


def runs_in(run: Path) -> "list[Run]":
    """The runs whose reports the folder of a run holds."""
    return [_run(folder, without_seed(name, _seed(folder))) for name, folder in reports_of(run).items()]


def _run(folder: Path, experiment: str) -> "Run":
    from damnatio.reporting.joined import Run

    recipe = section_of(_settings(folder), "recipe")
    if not recipe:
        raise DamnatioError(f"There is no finished report in {folder}: run its recipe to the end first.")
    return Run(experiment, built(recipe, folder), folder)


def _seed(folder: Path) -> int:
    seed = section_of(_settings(folder), "recipe").get("seed")
    return seed if isinstance(seed, int) else -1


def _settings(folder: Path) -> dict[str, Any]:
    """What a report was made with."""
    return section_of(manifest_of(folder), "settings")


def _check(one: str, first: "Run", other: str, second: "Run") -> None:
    """Refuse two runs whose numbers cannot stand side by side."""
    why = other_protocol(first.recipe, second.recipe)
    if why:
        raise DamnatioError(f"{one} and {other} cannot stand in one table: {why}. Join runs of one protocol.")
    if first.seed == second.seed and _partitions(first) != _partitions(second):
        raise DamnatioError(
            f"{one} and {other} cannot stand in one table: with the same settings and the seed {first.seed} they drew "
            "other people, so their faces are not the same. Join runs on the same faces."
        )
    if first.experiment == second.experiment:
        difference = other_settings(first.recipe, second.recipe)
        if difference or first.seed == second.seed:
            what = str(difference) if difference else f"both have the seed {first.seed}"
            raise DamnatioError(
                f"{one} and {other} cannot be seeds of one experiment, '{first.experiment}': {what}. Name them, as in "
                "NAME=RUN."
            )


def _partitions(run: "Run") -> object:
    return section_of(manifest_of(run.folder), "inputs").get("partitions")


def _publish(workspace: Workspace, title: str, kind: str, runs: "Mapping[str, Run]") -> Path:
    def build(folder: Path) -> None:
        from damnatio.reporting.joined import write_joined

        write_joined(title, list(runs.values()), folder)

    inputs = {name: Output(run.folder, manifest_of(run.folder)["key"]) for name, run in runs.items()}
    settings = {"title": title, kind: list(runs), "names": [run.experiment for run in runs.values()]}
    return workspace.publish(REPORT, settings, inputs, build, behind(build))
