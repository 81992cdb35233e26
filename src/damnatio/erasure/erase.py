"""An erasure request, which needs only paths: a model in service, the people to forget, faces to retain.

The request becomes a recipe and runs through the same stages as any other. This module decides what the recipe needs
and the request leaves open, from what the sources hold: a development and a test set, their sizes, the schedule, and
how much of the network is trained.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from damnatio.backbones.cutting import Cuttable
from damnatio.faces.base import POOL
from damnatio.methods import METHODS
from damnatio.models.card import Card
from damnatio.models.exporting import export
from damnatio.models.importing import import_model, weights_file
from damnatio.models.store import load_backbone
from damnatio.pipeline import Pipeline
from damnatio.recipe.files import compose, model_settings
from damnatio.recipe.schema import Recipe
from damnatio.support.devices import device
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table, codes_of
from damnatio.workspace import Workspace

PEOPLE, RETAIN, DEVELOPMENT, TEST = "people", "retain", "development", "test"
SCALE = "all"
STEPS = 500
"""of fine-tuning, unless that is more than the paper's 40 epochs"""
HASTE = 30
"""factor of the learning rates: the paper's belong to tens of thousands of steps, and here are some hundreds; the
recipe for real faces (configs/lfw-mobilefacenet.yaml) has the same factor"""
MOST = {TEST: 1_000, DEVELOPMENT: 5_000}
"""most identities that are split off the retain source: the paper's test set, and enough pairs for an FMR of 1e-6"""


@dataclass(frozen=True)
class _Request:
    model: Path
    people: Path
    retain: Path
    method: str
    development: Path | None
    test: Path | None
    freeze: str
    resize: bool
    overrides: Sequence[str]


@dataclass(frozen=True)
class Erased:
    """The outcome of an erasure."""

    files: list[Path]
    """the altered models, in the format that the model came in; each has its card beside it"""
    report: Path
    """the folder of the report on the model before and after"""
    recipe: Recipe
    """of the report"""


def erase(
    model: Path,
    people: Path,
    retain: Path,
    *,
    out: Path,
    method: str = "HD",
    development: Path | None = None,
    test: Path | None = None,
    freeze: str = "",
    resize: bool = False,
    overrides: Sequence[str] = (),
    say: Callable[[str], None] = print,
) -> Erased:
    """Forget the people, measure the model before and after, and write the altered one into `out`.

    The run is kept in `out/run`. `freeze` is the last cut point that stays as it is; unset: the usual one on a
    processor and none on a GPU; `none`: all of the network is trained.
    """
    request = _Request(model, people, retain, method, development, test, freeze, resize, overrides)
    settings = model_settings(
        model, [override for override in overrides if override.startswith(("model.", "plugins="))]
    )
    network, card = import_model(settings)
    suffix = weights_file(settings).suffix
    faces = _faces(request, card)
    with Workspace(out / "run", say=say) as workspace:
        first = Pipeline(_recipe(request, network, faces, {}, {}), workspace)
        _check_pools(request, first.faces().path)
        table = Table.read(first.captures().path / "captures.parquet")
        partitions, images = _partitions(request, table)
        batch = min(128, max(2, images // 2))
        schedule = {"epochs": int(np.clip(round(STEPS * batch / images), 1, 40)), "batch": batch}
        pipeline = Pipeline(_recipe(request, network, faces, partitions, schedule), workspace)
        report = pipeline.report()
        files = []
        for variant in pipeline.recipe.forget.methods:
            files.append(out / f"{model.stem}-{variant}{suffix}")
            altered, written = load_backbone(pipeline.altered(SCALE, variant).path)
            export(altered, written, files[-1])
    return Erased(files, report, pipeline.reported)


def _faces(request: _Request, card: Card) -> dict[str, Any]:
    named = {name: str(path) for name, path in _sources(request).items()}
    return {"source": "collection", "pools": named, "size": card.size, "resize": request.resize}


def _check_pools(request: _Request, faces: Path) -> None:
    """Refuse a source all of whose images were skipped, with the reasons."""
    kept = set(Table.read(faces / "faces.parquet")[POOL].tolist())
    skipped = Table.read(faces / "skipped.parquet").rows()
    for name, path in _sources(request).items():
        if name not in kept:
            reasons = sorted({row["reason"] for row in skipped if str(row["image"]).startswith(f"{name}/")})
            offer = "" if request.resize else " Square faces of another size are brought to the model's by --resize."
            raise DamnatioError(f"No image of {path} can be used: {'; '.join(reasons[:3])}.{offer}")


def _sources(request: _Request) -> dict[str, Path]:
    pools = {PEOPLE: request.people, RETAIN: request.retain, DEVELOPMENT: request.development, TEST: request.test}
    return {name: path for name, path in pools.items() if path is not None}


def _recipe(
    request: _Request, network: nn.Module, faces: dict[str, Any], partitions: dict[str, Any], schedule: dict[str, Any]
) -> Recipe:
    freeze = request.freeze or (
        network.usual_cut() if device().type == "cpu" and isinstance(network, Cuttable) else None
    )
    rate = METHODS.get(request.method).Settings.model_fields["lr"].default
    own = {request.method: {"lr": HASTE * rate}}
    forget: dict[str, Any] = {"scales": [SCALE], "methods": [request.method], "settings": own, **schedule}
    if freeze and freeze != "none":
        forget["freeze"] = freeze
    content = {
        "name": "erasure",
        "faces": faces,
        "model": {"weights": str(request.model)},
        "partitions": partitions or {"scales": {SCALE: 1}},
        "forget": forget,
    }
    return compose(content, request.model, request.overrides)


def _partitions(request: _Request, captures: Table) -> tuple[dict[str, Any], int]:
    """The section `partitions` of the recipe, and how many images the retain identities have."""
    codes, names = codes_of(captures["identity"])
    pool = np.empty(len(names), dtype=object)
    pool[codes] = captures[POOL]
    images = np.bincount(codes)
    instances = np.bincount(codes, weights=captures["kept"])
    forget = int(((pool == PEOPLE) & (instances >= 2)).sum())
    if not forget:
        raise DamnatioError(
            f"Nobody in {request.people} has two capture instances, and one moment alone can be linked with nothing: "
            "bring images of the same person that were taken at different times."
        )
    everyone = int((pool == RETAIN).sum())
    several = int(((pool == RETAIN) & (images >= 2)).sum())
    given = {name: (pool == name) for name in (TEST, DEVELOPMENT)}
    test = int((given[TEST] & (images >= 2)).sum()) if request.test else min(MOST[TEST], several // 4)
    development = int(given[DEVELOPMENT].sum()) if request.development else min(MOST[DEVELOPMENT], everyone // 4)
    taken = 0 if request.test else test
    retain = everyone - taken - (0 if request.development else development)
    control = min(1_000, several - taken, retain)
    if control < 2 or test < 2:
        raise DamnatioError(
            f"{request.test or request.retain} has too few people with two images or more to measure what is retained: "
            f"{several} in {request.retain}; at least 8 are needed, or 2 there and 2 in a test source (--test)."
        )
    if development < 2:
        raise DamnatioError(
            f"{request.development or request.retain} leaves fewer than two people to calibrate on: bring more faces, "
            "or a development source (--development)."
        )
    partitions: dict[str, Any] = {
        "retain": retain, "control": control, "test": test, "development": development, "distractors": 0,
        "min_images": 2, "test_min_images": 2, "development_min_images": 1, "forget_min_images": 2,
        "scales": {SCALE: forget},
        "pools": {
            "F": PEOPLE, "R": RETAIN, "T": TEST if request.test else RETAIN,
            "D": DEVELOPMENT if request.development else RETAIN,
        },
    }  # fmt: skip
    return partitions, max(int(images[pool == RETAIN].sum() * retain / everyone), 1)
