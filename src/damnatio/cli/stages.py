"""The verbs that work on a recipe: `demo` and `run`, and one verb per stage in the order of the pipeline."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from damnatio.cli.arguments import RECIPE, Verbs, add_recipe_options, positive

if TYPE_CHECKING:
    from rich.console import Console

    from damnatio.pipeline import Pipeline
    from damnatio.recipe.schema import Recipe
    from damnatio.reporting.joined import Run

STAGES: dict[str, str] = {
    "faces": "1  index the images of the source, keep those that can be read",
    "captures": "2  find the images of an identity that were taken at one moment",
    "partitions": "3  draw retain, test, development, distractors and forget sets",
    "train": "4  train f* on the retain identities",
    "forget": "5  alter f* by each method at each scale",
    "embed": "6  embed every image that is compared",
    "evaluate": "7  compare, calibrate and measure",
    "report": "8  tables, figures and one page",
}

Work = Callable[["Pipeline", argparse.Namespace], None]
"""what a verb does with the pipeline of its recipe"""


def add(verbs: "Verbs[argparse.ArgumentParser]") -> None:
    _add(verbs.add_parser("demo", help="run the recipe `demo`, all stages"), _report)
    run = verbs.add_parser("run", help="run a recipe, all stages")
    run.add_argument("recipe", metavar="RECIPE", help=RECIPE)
    _add(run, _report)
    work: dict[str, Work] = {
        "faces": _faces,
        "captures": _captures,
        "partitions": _partitions,
        "train": _train,
        "forget": _forget,
        "embed": _embed,
        "evaluate": _evaluate,
        "report": _report,
    }
    for name, text in STAGES.items():
        stage = verbs.add_parser(name, help=text, description=f"Stage {text.replace('  ', ': ')}.")
        if name == "faces":
            source = "a recipe, or the faces: a folder, a .csv, .parquet, .rec, .tar or .bin (demo)"
            stage.add_argument("recipe", nargs="?", default="demo", metavar="SOURCE", help=source)
            stage.add_argument("--sheet", type=Path, metavar="PNG", help="draw identities as rows, images as columns")
            stage.add_argument("--rows", type=positive, default=10, help="identities on the sheet (10)")
            stage.add_argument("--columns", type=positive, default=10, help="images of each identity (10)")
        else:
            stage.add_argument("recipe", nargs="?", default="demo", metavar="RECIPE", help=f"{RECIPE} (demo)")
        _add(stage, work[name])


def _add(verb: argparse.ArgumentParser, work: Work) -> None:
    add_recipe_options(verb)
    verb.set_defaults(act=_act, work=work, resumes=True)


def _act(options: argparse.Namespace) -> int:
    source = getattr(options, "recipe", "demo")
    data = False
    if options.verb == "faces":
        from damnatio.recipe.files import names_faces

        data = names_faces(source)
    print(f"damnatio {options.verb}: {'' if data else 'recipe '}{source}", flush=True)  # torch takes seconds to import
    from damnatio.recipe.experiments import experiments
    from damnatio.recipe.files import load, of_faces
    from damnatio.running.elsewhere import pipeline_of
    from damnatio.workspace import Workspace

    recipe = of_faces(source, options.set) if data else load(source, options.set)
    with Workspace(options.run or Path("runs") / recipe.name, say=say) as workspace:
        pipelines = {name: pipeline_of(one, workspace) for name, one in experiments(recipe).items()}
        if options.work is _report and "" not in pipelines:
            _joined_report(pipelines)
            return 0
        for name, pipeline in pipelines.items():
            if name:
                say(f"{'experiment':<13} {name}")
            options.work(pipeline, options)
    return 0


def say(line: str) -> None:
    print(line, flush=True)


def _faces(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    from damnatio.reporting.report import draw_sheet

    output = pipeline.faces()
    _print(output.path / "summary.json")
    if options.sheet:
        draw_sheet(pipeline.images(output), options.sheet, options.rows, options.columns)
        print(f"sheet         {options.sheet}")


def _captures(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    _print(pipeline.captures().path / "summary.json")


def _partitions(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    _print(pipeline.partitions().path / "counts.json")


def _train(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    pipeline.original()


def _print(file: Path) -> None:
    from damnatio.support.manifests import checked

    print(checked(file).read_text(encoding="utf-8").strip())


def _forget(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    forget = pipeline.recipe.forget
    for scale in forget.scales:
        for variant in forget.methods:
            pipeline.altered(scale, variant)


def _embed(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    for scale, variant in _models(pipeline):
        pipeline.embeddings(scale, variant)
    pipeline.examples()


def _evaluate(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    for scale, variant in _models(pipeline):
        pipeline.evaluation(scale, variant)


def _models(pipeline: "Pipeline") -> list[tuple[str, str]]:
    """f* and the altered models, at each scale."""
    from damnatio.evaluation.measuring import ORIGINAL

    forget = pipeline.recipe.forget
    return [(scale, variant) for scale in forget.scales for variant in (ORIGINAL, *forget.methods)]


def _report(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    folder = pipeline.report()
    show_report(pipeline.reported, folder)


def _joined_report(pipelines: "Mapping[str, Pipeline]") -> None:
    from damnatio.running.joint import joined_report, runs_in

    folder = joined_report(pipelines)
    show_joined(runs_in(folder.parent), folder)


def show_joined(runs: "Sequence[Run]", folder: Path) -> None:
    """The tables of a finished joined report, and where its page is."""
    from damnatio.reporting.joined import terminal_tables

    console = _console()
    _show(console, terminal_tables(runs, console.width), folder)


def show_report(recipe: "Recipe", folder: Path) -> None:
    """The tables of a finished report, and where its page is."""
    from damnatio.reporting.report import terminal_tables

    console = _console()
    _show(console, terminal_tables(recipe, folder, console.width), folder)


def _console() -> "Console":
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 200)


def _show(console: "Console", tables: Iterable[object], folder: Path) -> None:
    console.print()
    for table in tables:
        console.print(table)
        console.print()
    console.print(f"Page: {folder / 'index.html'}", soft_wrap=True)
