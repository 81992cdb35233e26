"""Damnatio makes a face recognition model forget chosen people, and measures it.

Six functions do what the command line does: `run`, `erase`, `hidden`, `recheck`, `load_model` and `export`. A loop of
one's own takes `losses`, `frames`, `data`, `protocol`, `metrics` and `evaluate` (docs/library.md). All of them import
what they need when they are used: `import damnatio` must not import torch.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from damnatio import data, frames, losses, metrics, protocol
    from damnatio.data import IdentityBalanced
    from damnatio.erasure.erase import Erased, HiddenPerson
    from damnatio.erasure.request import Case
    from damnatio.evaluation.arrays import evaluate
    from damnatio.evaluation.rates import Result
    from damnatio.models.card import Card
    from damnatio.models.gate import Gate
    from damnatio.support.errors import DamnatioError

__all__ = [
    "DamnatioError",
    "Gate",
    "IdentityBalanced",
    "data",
    "erase",
    "evaluate",
    "export",
    "frames",
    "hidden",
    "load_model",
    "losses",
    "metrics",
    "protocol",
    "recheck",
    "run",
]

__version__: str
if not TYPE_CHECKING:
    _PARTS = "data", "frames", "losses", "metrics", "protocol"
    _NAMES = {
        "DamnatioError": "damnatio.support.errors",
        "IdentityBalanced": "damnatio.data",
        "Gate": "damnatio.models.gate",
        "evaluate": "damnatio.evaluation.arrays",
    }

    def __getattr__(name: str) -> Any:
        """The version and the library, when they are asked for: even `importlib.metadata` takes longer to import than
        `--help` to print."""
        from importlib import import_module

        if name == "__version__":
            from importlib.metadata import version

            return version("damnatio")
        if name in _PARTS:
            return import_module(f"damnatio.{name}")
        if name in _NAMES:
            return getattr(import_module(_NAMES[name]), name)
        raise AttributeError(f"module 'damnatio' has no attribute '{name}'")


AnyPath = str | os.PathLike[str]
Say = Callable[[str], None]
"""is given one line per finished stage, and more from long ones"""


def run(
    recipe: AnyPath, *, overrides: Sequence[str] = (), folder: AnyPath | None = None, say: Say | None = None
) -> Path:
    """Run a recipe, all stages: a YAML file, or a name that `damnatio ls recipes` shows. Returns the report's folder,
    the joined one of a recipe with experiments.

    `overrides` are the words after `--set`; `folder` is the run's, `runs/<name of the recipe>` unless given.
    """
    from damnatio.recipe.experiments import experiments
    from damnatio.recipe.files import load
    from damnatio.running.elsewhere import pipeline_of
    from damnatio.running.joint import joined_report
    from damnatio.workspace import Workspace

    loaded = load(os.fspath(recipe), overrides)
    with Workspace(_path(folder or Path("runs") / loaded.name), say=say or _silent) as workspace:
        return joined_report({name: pipeline_of(one, workspace) for name, one in experiments(loaded).items()})


def erase(
    model: AnyPath,
    people: AnyPath | None = None,
    retain: AnyPath | None = None,
    *,
    out: AnyPath,
    method: str = "GS",
    gallery: AnyPath | Sequence[AnyPath] | None = None,
    same: Sequence[str] = (),
    not_same: Sequence[str] = (),
    case: "Case | None" = None,
    bystanders: AnyPath | None = None,
    development: AnyPath | None = None,
    test: AnyPath | None = None,
    strangers: float = 1e-4,
    goal: float = 0.9,
    restore: Sequence[str] = (),
    keep_work: bool = False,
    freeze: str = "",
    resize: bool = False,
    accept_unmeasured: bool = False,
    overrides: Sequence[str] = (),
    say: Say | None = None,
) -> "Erased":
    """Make a model forget people, and write it into `out` in the format it came in, with a record of what was done.

    The arguments are those of `damnatio erase MODEL PEOPLE RETAIN`; `gallery` is one address or several, and a `case`
    (`damnatio.erasure.request.Case`) also writes a plan of what to delete from them. `complete` of the result says
    whether everybody asked for was measured to be forgotten, and the share of strangers touched is known; `exit_code`
    of its record is that of the command.
    """
    from damnatio.erasure.erase import erase as carry_out
    from damnatio.erasure.request import Request

    request = Request(
        model=_path(model),
        out=_path(out),
        people=_path_or_none(people),
        retain=_path_or_none(retain),
        method=method,
        galleries=_addresses(gallery),
        same=tuple(same),
        not_same=tuple(not_same),
        case=case,
        bystanders=_path_or_none(bystanders),
        development=_path_or_none(development),
        test=_path_or_none(test),
        strangers=strangers,
        goal=goal,
        restore=tuple(restore),
        keep_work=keep_work,
        freeze=freeze,
        resize=resize,
        accept_unmeasured=accept_unmeasured,
        overrides=overrides,
    )
    return carry_out(request, say or _silent)


def hidden(model: AnyPath) -> "list[HiddenPerson]":
    """The people whom a model hides, by pseudonym, as `damnatio erase MODEL --list` shows them."""
    from damnatio.erasure.erase import hidden as listed

    return listed(_path(model))


def recheck(
    embeddings: AnyPath,
    partitions: AnyPath,
    *,
    recipe: AnyPath = "demo",
    overrides: Sequence[str] = (),
    scale: str = "",
    original: AnyPath | None = None,
) -> "list[Result]":
    """Measure stored embeddings at a scale, the smallest unless one is named; no model and no image is needed.

    The recipe gives the operating points, the replicates and the seed. `original` holds the embeddings of f*, for an
    altered model; without it the embeddings are measured as those of f*.
    """
    from damnatio.evaluation.rechecking import Setup, original_of
    from damnatio.evaluation.rechecking import recheck as measured
    from damnatio.recipe.files import load

    loaded = load(os.fspath(recipe), overrides)
    setup = Setup(partitions=_path(partitions), seed=loaded.seed, settings=loaded.evaluate, scale=scale)
    star = None if original is None else original_of(_path(original), setup)
    return measured(_path(embeddings), setup, original=star).results


def load_model(path: AnyPath, **model_settings: Any) -> "tuple[nn.Module, Card]":
    """The network of a model folder or a file of weights, in evaluation mode, and its card.

    `model_settings` are keys of the section `model` of a recipe, for what no card says: `colour="BGR"`.
    """
    from damnatio.models.importing import import_model
    from damnatio.recipe.files import model_settings as settings_of

    return import_model(settings_of(_path(path), **model_settings))


def export(module: "nn.Module", card: "Card", path: AnyPath) -> "Card":
    """Write a network as its users deploy it, in the format that the ending names, with its card beside it.

    Returns the card as written.
    """
    from damnatio.models.exporting import export as write

    return write(module, card, _path(path))


def _path(path: AnyPath) -> Path:
    return Path(path).expanduser()


def _path_or_none(path: AnyPath | None) -> Path | None:
    return None if path is None else _path(path)


def _addresses(given: AnyPath | Sequence[AnyPath] | None) -> list[str]:
    several = [given] if isinstance(given, str | os.PathLike) else given or ()
    return [os.fspath(one) for one in several]


def _silent(line: str) -> None:
    pass
