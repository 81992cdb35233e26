"""One verb per stage, in the order of the pipeline."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from damnatio.cli.arguments import RECIPE, Verbs, add_recipe_options, positive
from damnatio.cli.runs import add_processes, as_group, in_run, run_here
from damnatio.cli.showing import add_tables, say, tell

if TYPE_CHECKING:
    from damnatio.pipeline import Pipeline
    from damnatio.workspace import Output

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
    work: dict[str, Work] = {
        "faces": _faces,
        "captures": _captures,
        "partitions": _partitions,
        "train": _train,
        "forget": _forget,
        "embed": _embed,
        "evaluate": _evaluate,
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
        add_recipe_options(stage)
        add_processes(stage)
        if name == "report":
            add_tables(stage)
        stage.set_defaults(act=as_group(_act if name in work else run_here), work=work.get(name), resumes=True)


def _act(options: argparse.Namespace) -> int:
    with in_run(options) as (pipelines, walk):
        for name, pipeline in pipelines.items():
            if name:
                say(f"{'experiment':<13} {name}")
            options.work(pipeline, options)
            walk.conclude()
    return 0


def _faces(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    from damnatio.reporting.report import draw_sheet
    from damnatio.support.processes import is_main
    from damnatio.workspace import Absent

    output = pipeline.faces()
    _print(output, "summary.json")
    if options.sheet and not isinstance(output, Absent) and is_main():
        draw_sheet(pipeline.images(output), options.sheet, options.rows, options.columns)
        say(f"sheet         {options.sheet}")


def _captures(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    _print(pipeline.captures(), "summary.json")


def _partitions(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    _print(pipeline.partitions(), "counts.json")


def _train(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    pipeline.original()


def _print(output: "Output", file: str) -> None:
    from damnatio.support.manifests import checked
    from damnatio.workspace import Absent

    if not isinstance(output, Absent):  # else the error comes at the end
        say(checked(output.path / file).read_text(encoding="utf-8").strip())


def _forget(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    forget = pipeline.recipe.forget
    for scale in forget.scales:
        for variant in forget.methods:
            pipeline.altered(scale, variant)


def _embed(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    for scale, variant in pipeline.models():
        pipeline.embeddings(scale, variant)
    pipeline.examples()


def _evaluate(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    from damnatio.reporting.drawing import Evaluated
    from damnatio.reporting.report import answers_of
    from damnatio.support.processes import is_main
    from damnatio.workspace import Absent

    found = {model: pipeline.evaluation(*model) for model in pipeline.models()}
    made = [Evaluated(*model, output.path) for model, output in found.items() if not isinstance(output, Absent)]
    if made and is_main():
        tell(answers_of(pipeline.recipe, pipeline.partitions().path, made))
