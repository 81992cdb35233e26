"""What the command line takes: verbs in the order of the pipeline, and their options."""

import argparse
from pathlib import Path

STAGES: dict[str, str] = {
    "faces": "1  index the images of the source, keep what can be read",
    "captures": "2  find which images of an identity were taken at one moment",
    "partitions": "3  draw retain, test, development, distractors and forget sets",
    "train": "4  train f* on the retain identities",
    "forget": "5  alter f* by each method at each scale; or erase people from a model of your own",
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
  damnatio forget model.onnx ~/people ~/retain        erase people from a model in service
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
        if verb == "forget":
            _add_forget(verbs.add_parser(verb, parents=[_common(None)], help=text, description=text[3:] + "."))
            continue
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
            again.add_argument("--out", type=_folder, metavar="FOLDER", help="where the results go (recheck/)")
            again.add_argument("--scores", type=Path, metavar="FOLDER", help="write all scores of 1:1 as CSV, for bob")
    found = verbs.add_parser("findings", help="check the paper's eight findings on one or more finished runs")
    found.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders of runs; several compare backbones")
    text = "measure a model on pairs of images or a folder of faces"
    _add_benchmark(verbs.add_parser("benchmark", parents=[_model()], help=text))
    out = verbs.add_parser("export", parents=[_model()], help="write a model as its users deploy it, with its card")
    out.add_argument("out", type=Path, metavar="OUT", help="a file that ends in .onnx, .safetensors, .pth or .pt")
    fed = verbs.add_parser("check", parents=[_model()], help="verify faces with the channels as declared, and swapped")
    fed.add_argument("faces", metavar="FACES", help="labelled faces: a folder of people or another source, or a recipe")
    listing = verbs.add_parser("ls", help="list methods, backbones, heads, sources or recipes")
    listing.add_argument("kind", choices=["methods", "backbones", "heads", "sources", "recipes"])
    return top


def _add_forget(verb: argparse.ArgumentParser) -> None:
    verb.usage = "damnatio forget [RECIPE] [options] | damnatio forget MODEL PEOPLE RETAIN [options]"
    verb.add_argument("what", nargs="*", metavar="RECIPE | MODEL PEOPLE RETAIN", help="a recipe (demo), or three paths")
    own = verb.add_argument_group(
        "erasure",
        "MODEL is an .onnx, .pth or .safetensors in service, PEOPLE the faces of those to forget, RETAIN faces that "
        "must stay known; each source is a folder of people, a manifest, a .rec, .tar shards. Out come the altered "
        "model in the format it came in, its card, and a report on both models.",
    )
    own.add_argument("--development", type=Path, metavar="SOURCE", help="strangers to calibrate on (split off RETAIN)")
    own.add_argument("--test", type=Path, metavar="SOURCE", help="strangers to measure on (split off RETAIN)")
    own.add_argument("--method", help="one of `damnatio ls methods` (HD)")
    own.add_argument("--freeze", metavar="STAGE", help="the last stage left as it is, or none (as fits)")
    own.add_argument("--resize", action="store_true", help="bring square faces of another size to the model's")
    own.add_argument("--out", type=_folder, metavar="FOLDER", help="where it all goes (erasure/)")


def _add_benchmark(verb: argparse.ArgumentParser) -> None:
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


def _folder(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("the name of a folder, and here it is empty; the current folder is '.'")
    return Path(text)


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
    common.add_argument("--run", type=_folder, metavar="FOLDER", help="where the run lives (runs/<name of the recipe>)")
    return common
