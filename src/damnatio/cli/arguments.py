"""Arguments that several verbs share."""

import argparse
from datetime import date
from pathlib import Path

Verbs = argparse._SubParsersAction  # the type of `add_subparsers()`, which argparse does not export
"""where a family of verbs adds its own"""

RECIPE = "a recipe: a YAML file, or a name that `damnatio ls recipes` shows"


def add_recipe_options(verb: argparse.ArgumentParser) -> None:
    """`--set` and `--run`, of every verb that works on a recipe."""
    verb.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change one setting; may be repeated"
    )
    verb.add_argument("--run", type=folder, metavar="FOLDER", help="the run's folder (runs/<name of the recipe>)")


def add_model(verb: argparse.ArgumentParser) -> None:
    """The model and its `--set`, of every verb that works on one model."""
    verb.add_argument("model", type=Path, metavar="MODEL", help="a model folder of a run, or a file of weights")
    text = "what no card says: model.backbone, colour, mean, deviation, licence; may be repeated"
    verb.add_argument("--set", action="append", default=[], metavar="model.KEY=VALUE", help=text)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1 up, not {text!r}")
    return int(text)


def day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a date as 2026-08-17, not {text!r}") from None


def folder(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("the name of a folder, and here it is empty; the current folder is '.'")
    return Path(text)
