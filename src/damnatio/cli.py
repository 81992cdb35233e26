"""The command line: one verb a stage, in the order of the pipeline. Heavy imports happen inside the verbs."""

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damnatio.errors import DamnatioError

if TYPE_CHECKING:
    from damnatio.pipeline import Pipeline

STAGES: dict[str, str] = {
    "faces": "1  index the images of the source, keep what can be read",
    "captures": "2  find which images of an identity were taken at one moment",
    "partitions": "3  draw retain, test, development, distractors and forget sets",
    "train": "4  train f* on the retain identities",
    "forget": "5  alter f* by each method at each scale",
    "embed": "6  embed every image that is compared",
    "evaluate": "7  compare, calibrate and measure",
    "report": "8  tables, figures and one page",
}

EPILOG = """\
examples:
  damnatio demo                                       the whole experiment on rendered faces
  damnatio run configs/demo.yaml --set seed=2         a recipe, with one setting changed
  damnatio run my.yaml --set faces.source=folder --set faces.root=~/faces
  damnatio train demo                                 one stage, on what the earlier ones left
  damnatio faces --sheet sheet.png                    look at the faces
  damnatio faces /data/train.rec --sheet sheet.png    and at your own
  damnatio findings runs/demo                         the paper's findings, judged on a run
  damnatio benchmark MODEL ~/lfw                      ten-fold accuracy, retrieval and CMC of one model
  damnatio check backbone.pth ~/faces                 is the model fed RGB or BGR?
  damnatio export runs/my/5-forget/S1-OF-1a2b3c4d f.onnx
  damnatio ls methods                                 what there is to choose from

A stage that was computed is never computed again; one that is missing is computed first.
"""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="damnatio",
        description="Make a face recognition model forget chosen people, and prove it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="store_true", help="print the version and leave")
    verbs = top.add_subparsers(dest="verb", metavar="VERB")
    verbs.add_parser("demo", parents=[_common(None)], help="run the embedded recipe, all stages")
    verbs.add_parser("run", parents=[_common("")], help="run a recipe, all stages")
    for verb, text in STAGES.items():
        what = "a recipe, or the faces: a folder, a .csv, .parquet, .rec, .tar or .bin" if verb == "faces" else ""
        stage = verbs.add_parser(verb, parents=[_common("demo", what)], help=text, description=text[3:] + ".")
        if verb == "faces":
            stage.add_argument("--sheet", type=Path, metavar="PNG", help="draw identities as rows, images as columns")
            stage.add_argument("--rows", type=_positive, default=10, help="identities on the sheet (10)")
            stage.add_argument("--columns", type=_positive, default=10, help="images of each (10)")
        if verb == "evaluate":
            again = stage.add_argument_group(
                "recheck without a model", "every number again, from stored embeddings and the table of partitions"
            )
            again.add_argument("--embeddings", type=Path, metavar="E.safetensors", help="those of the model to measure")
            again.add_argument("--protocol", type=Path, metavar="partitions.parquet", help="the table of partitions")
            again.add_argument(
                "--original", type=Path, metavar="E0.safetensors", help="those of f*, for an altered model"
            )
            again.add_argument("--scale", default="", help="which forget set (the smallest)")
            again.add_argument("--out", type=Path, default=Path("recheck"), help="where the results go (recheck/)")
    found = verbs.add_parser("findings", help="check the paper's eight findings on one or more finished runs")
    found.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders of runs; several compare backbones")
    _add_benchmark(verbs.add_parser("benchmark", help="measure a model on pairs of images or a folder of faces"))
    out = verbs.add_parser("export", parents=[_model()], help="write a model as its users deploy it, with its card")
    out.add_argument("out", type=Path, metavar="OUT", help="a file that ends in .onnx, .safetensors, .pth or .pt")
    fed = verbs.add_parser("check", parents=[_model()], help="verify faces with the channels as declared, and swapped")
    fed.add_argument("faces", metavar="FACES", help="labelled faces: a folder of people or another source, or a recipe")
    listing = verbs.add_parser("ls", help="list methods, backbones, heads, sources or recipes")
    listing.add_argument("kind", choices=["methods", "backbones", "heads", "sources", "recipes"])
    return top


def _add_benchmark(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("model", type=Path, metavar="MODEL", help="a model's folder: card.json and model.safetensors")
    verb.add_argument("source", type=Path, metavar="SOURCE", help="a folder of faces, or an InsightFace .bin of pairs")
    verb.add_argument("--pairs", type=Path, metavar="FILE", help="pairs of the folder: a .csv, or LFW's pairs.txt")
    verb.add_argument("--draw-pairs", type=_positive, default=6000, metavar="N", help="without a list, so many (6000)")
    verb.add_argument("--seed", type=_positive, default=1, help="of the pairs drawn (1)")
    verb.add_argument("--no-flip", action="store_true", help="embed f(x) alone, not f(x) + f(x mirrored)")
    verb.add_argument("--batch", type=_positive, default=32, help="images embedded at once (32)")
    verb.add_argument(
        "--scores", type=Path, metavar="FILE", help="write the pairs' scores: .csv, or bob's four columns"
    )
    verb.add_argument("--json", type=Path, metavar="FILE", help="write all numbers")


def _model() -> argparse.ArgumentParser:
    """Options of every verb that works on one model."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("model", type=Path, metavar="MODEL", help="a model folder of a run, or a file of weights")
    text = "say what no card does: model.backbone, colour, mean, deviation, licence"
    common.add_argument("--set", action="append", default=[], metavar="model.KEY=VALUE", help=text)
    return common


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1 up, not {text!r}")
    return int(text)


def _common(recipe: str | None, what: str = "") -> argparse.ArgumentParser:
    """Options of every verb that works on a recipe; `recipe` is the default one, "" for none, None for no choice;
    `what` says what else there may stand."""
    common = argparse.ArgumentParser(add_help=False)
    if recipe is not None:
        text = what or "a recipe: a YAML file, or a name that `damnatio ls recipes` shows"
        if recipe:
            metavar = "SOURCE" if what else "RECIPE"
            common.add_argument("recipe", nargs="?", default=recipe, metavar=metavar, help=f"{text} ({recipe})")
        else:
            common.add_argument("recipe", metavar="RECIPE", help=text)
    common.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change one setting; may be repeated"
    )
    common.add_argument("--run", type=Path, metavar="FOLDER", help="where the run lives (runs/<name of the recipe>)")
    return common


def main(arguments: Sequence[str] | None = None) -> int:
    top = parser()
    options = top.parse_args(arguments)
    if options.version:
        from damnatio import __version__

        print(f"damnatio {__version__}")
        return 0
    if options.verb is None:
        top.print_help()
        return 0
    try:
        return _OTHERS.get(options.verb, _work)(options)
    except DamnatioError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        kept = "" if options.verb == "benchmark" else " What was computed is kept: the same command goes on from there."
        return _fail(f"Interrupted.{kept}", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        return _fail("Out of memory. Lower the batch or evaluate.nonmated_pairs; finished stages are kept.")
    except OSError as error:
        if error.errno == errno.ENOSPC or "No space left" in str(error):
            return _fail(
                "No space left on the disk. Finished stages are kept: free some space and run the same command again."
            )
        return _fail(f"{error.filename or 'The operating system'}: {error.strerror or error}.")


def _fail(sentence: str, code: int = 2) -> int:
    print(f"damnatio: {sentence}", file=sys.stderr)
    return code


def _work(options: argparse.Namespace) -> int:
    if options.verb == "evaluate" and (options.embeddings or options.protocol):
        return _recheck(options)
    source = getattr(options, "recipe", "demo")
    data = options.verb == "faces" and _is_data(source)
    print(f"damnatio {options.verb}: {'' if data else 'recipe '}{source}", flush=True)  # before torch is there
    from damnatio.pipeline import Pipeline
    from damnatio.recipe import load, of_faces
    from damnatio.workspace import Workspace

    recipe = of_faces(source, options.set) if data else load(source, options.set)
    with Workspace(options.run or Path("runs") / recipe.name, say=lambda line: print(line, flush=True)) as workspace:
        _VERBS[options.verb](Pipeline(recipe, workspace), options)
    return 0


def _is_data(source: str) -> bool:
    """Whether the faces themselves are named; a name that `damnatio ls recipes` shows stays a recipe."""
    from damnatio.faces.detection import is_source
    from damnatio.recipe import configs

    return is_source(source) and source not in {recipe.stem for recipe in configs().glob("*.yaml")}


def _faces(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    from damnatio.reporting import draw_sheet

    output = pipeline.faces()
    print((output.path / "summary.json").read_text().strip())
    if options.sheet:
        draw_sheet(pipeline.images(output), options.sheet, options.rows, options.columns)
        print(f"sheet         {options.sheet}")


def _every_model(stage: str) -> Callable[["Pipeline", argparse.Namespace], None]:
    def work(pipeline: "Pipeline", options: argparse.Namespace) -> None:
        from damnatio.evaluating import ORIGINAL

        forget = pipeline.recipe.forget
        first = [] if stage == "altered" else [ORIGINAL]
        for scale in forget.scales:
            for label in [*first, *forget.methods]:
                getattr(pipeline, stage)(scale, label)

    return work


def _recheck(options: argparse.Namespace) -> int:
    if not (options.embeddings and options.protocol):
        raise DamnatioError("A recheck needs both --embeddings and --protocol.")
    from rich.console import Console
    from rich.table import Table as Shown

    from damnatio.rechecking import recheck
    from damnatio.recipe import load

    recipe = load(options.recipe, options.set)
    found = recheck(recipe, options.embeddings, options.protocol, options.scale, options.original, options.out)
    shown = Shown(box=None, header_style="bold", pad_edge=False)
    for name in ("task", "group", "at", "metric", "value", "n", "95 % (subjects)", "95 % (Wilson)"):
        shown.add_column(name, justify="right" if name in ("at", "value", "n") else "left")
    for task, group, point, metric, value, count, _, *ends in found.rows:
        spans = ["" if low != low else f"[{low:.4f}, {high:.4f}]" for low, high in (ends[:2], ends[2:])]
        at = "" if point != point else f"{point:g}"
        shown.add_row(task, group, at, metric, f"{value:.6f}", f"{count:,}", *spans)
    Console(width=None if sys.stdout.isatty() else 160, markup=False).print(shown)
    for warning in found.warnings:
        print(f"{warning['task']} {warning['group']}: {warning['warning']}")
    print(f"results       {options.out / 'results.csv'}")
    return 0


def _report(pipeline: "Pipeline", options: argparse.Namespace) -> None:
    from rich.console import Console

    from damnatio.reporting import terminal_tables

    folder = pipeline.report()
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print()
    for table in terminal_tables(pipeline.recipe, folder):
        console.print(table)
        console.print()
    console.print(f"Page: {folder / 'index.html'}", soft_wrap=True)


_VERBS: dict[str, Callable[["Pipeline", argparse.Namespace], None]] = {
    "demo": _report,
    "run": _report,
    "faces": _faces,
    "captures": lambda pipeline, options: print((pipeline.captures().path / "summary.json").read_text().strip()),
    "partitions": lambda pipeline, options: print((pipeline.partitions().path / "counts.json").read_text().strip()),
    "train": lambda pipeline, options: print(pipeline.original().path),
    "forget": _every_model("altered"),
    "embed": _every_model("embeddings"),
    "evaluate": _every_model("evaluation"),
    "report": _report,
}


def _list(options: argparse.Namespace) -> int:
    kind = options.kind
    if kind == "recipes":
        from damnatio.recipe import configs

        for path in sorted(configs().glob("*.yaml")):
            print(f"{path.stem:<24} {_first_comment(path)}")
    elif kind == "methods":
        from damnatio.methods import METHODS

        for name in METHODS.names():
            method = METHODS.get(name)
            print(f"{name:<6} {method.title:<28} {method.kind:<10} {method.reference}")
    else:
        from damnatio.backbones import BACKBONES
        from damnatio.faces import SOURCES
        from damnatio.heads import HEADS
        from damnatio.registry import Registry

        registries: dict[str, Registry[Any]] = {"backbones": BACKBONES, "heads": HEADS, "sources": SOURCES}
        registry = registries[kind]
        for name in registry.names():
            text = (registry.get(name).__doc__ or "").strip().split("\n")[0]
            print(f"{name:<16} {text}")
    return 0


def _findings(options: argparse.Namespace) -> int:
    from damnatio.findings import judge, markdown
    from damnatio.reporting import read_report

    print(markdown(judge([read_report(run / "report") for run in options.runs])), end="")
    return 0


def _export(options: argparse.Namespace) -> int:
    from damnatio.exporting import export
    from damnatio.importing import import_model
    from damnatio.recipe import model_settings

    backbone, card = import_model(model_settings(options.model, options.set))
    written = export(backbone, card, options.out)
    print(f"{options.out}: {card.backbone}, {card.dim} values, {written.sha256[:16]}; its card lies beside it")
    if written.parity is not None:
        print(f"torch and onnxruntime differ by {written.parity:.1e} of the embedding's length")
        if (card.colour, card.mean, card.scale) not in (("RGB", 127.5, 127.5), ("RGB", 0.0, 1.0)):
            fed = f"{card.colour}, (x - {card.mean:g}) / {card.scale:g}"
            print(f"The model is fed {fed}; InsightFace's client feeds RGB, (x - 127.5) / 127.5.")
    return 0


def _check(options: argparse.Namespace) -> int:
    from damnatio.checking import check, text
    from damnatio.faces import SOURCES
    from damnatio.importing import import_model
    from damnatio.recipe import face_settings, model_settings

    backbone, card = import_model(model_settings(options.model, options.set))
    settings = face_settings(options.faces, card.size)
    print(text(*check(backbone, card, SOURCES.get(settings.source)(settings))))
    return 0


def _benchmark(options: argparse.Namespace) -> int:
    print(f"damnatio benchmark: {options.model} on {options.source}", flush=True)  # before torch is there
    from damnatio.benchmarking import Options, as_json, benchmark, lines
    from damnatio.workspace import write_atomically

    chosen = Options(
        options.pairs, options.draw_pairs, options.seed, not options.no_flip, options.batch, options.scores
    )
    result = benchmark(options.model, options.source, chosen)
    for line in lines(result):
        print(line)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(options.json, as_json(result))
    return 0


def _first_comment(path: Path) -> str:
    first = path.read_text().split("\n", 1)[0]
    return first.removeprefix("#").strip() if first.startswith("#") else ""


_OTHERS: dict[str, Callable[[argparse.Namespace], int]] = {
    "findings": _findings,
    "benchmark": _benchmark,
    "export": _export,
    "check": _check,
    "ls": _list,
}
"""verbs that need no recipe"""
