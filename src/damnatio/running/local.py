"""A recipe in this process, stage by stage, in the order of the pipeline; or one task of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from damnatio.pipeline import Pipeline
from damnatio.recipe.schema import Recipe
from damnatio.running.graph import Graph, Task
from damnatio.running.joint import join_experiments, report_name
from damnatio.running.publishing import REPORT, NothingToReportError, needed, publish
from damnatio.running.walking import Walk
from damnatio.support import processes
from damnatio.support.errors import DamnatioError
from damnatio.workspace import Output

Pipelines = Mapping[str, Pipeline]
"""the pipelines of a recipe, by experiment; their workspace is a `Walk`"""


@dataclass(frozen=True)
class Made:
    """The report of a run. `recipe` is that of the report; None if it joins several."""

    folder: Path
    recipe: Recipe | None


def run_all(pipelines: Pipelines, graph: Graph, walk: Walk) -> Made | None:
    """Make everything, and the report on what could be made; None if there is nothing to report. Errors are kept in
    the walk."""
    recipes = {name: _published(name, pipelines, graph, walk) for name in pipelines}
    published = [name for name, recipe in recipes.items() if recipe is not None]
    if not published:
        return None
    if published == [""]:
        return Made(walk.folder / REPORT, recipes[""])
    if not _joined({name: pipelines[name] for name in published}, graph, walk):
        return None
    return Made(walk.folder / REPORT, None)


def run_task(task: Task, pipelines: Pipelines, graph: Graph, walk: Walk) -> None:
    """Make one task of a recipe. What it needs must be finished."""
    walk.chosen = set(task.nodes)
    experiment = graph.experiments[task.id][0]
    if graph.nodes[task.id].stage == report_name(experiment):
        _published(experiment, pipelines, graph, walk)
    elif task.publishes:
        _joined(pipelines, graph, walk)
    else:
        needed(pipelines[experiment])
    done = processes.from_main(lambda: set(graph.done(walk.folder)))
    if not walk.errors and task.id not in done:
        missing = ", ".join(graph.names[need] for need in task.needs - done)
        raise DamnatioError(
            f"{task.name} needs what is not finished: {missing or 'it came out otherwise than planned'}."
        )


def _published(name: str, pipelines: Pipelines, graph: Graph, walk: Walk) -> Recipe | None:
    """Make an experiment and its report; the recipe of the report."""
    if name:
        walk.say(f"{'experiment':<13} {name}")
    recipes: list[Recipe] = []

    def report() -> Output:
        try:
            published = publish(pipelines[name], report_name(name))
        except NothingToReportError:
            if not walk.errors and walk.chosen is None:  # else the walk knows why
                raise
            return Output(walk.folder, "")
        recipes.append(published.recipe)
        return Output(published.folder, "")

    walk.attempt(graph.nodes[_node(graph, report_name(name))], report)
    return recipes[0] if recipes else None


def _joined(pipelines: Pipelines, graph: Graph, walk: Walk) -> bool:
    node = graph.nodes[_node(graph, REPORT)]

    def join() -> Output:
        return Output(join_experiments(pipelines), "")

    return walk.attempt(node, join) is not None


def _node(graph: Graph, stage: str) -> str:
    return next(key for key, node in graph.nodes.items() if node.stage == stage)
