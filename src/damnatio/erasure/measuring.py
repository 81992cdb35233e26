"""The report of an erasure: the request becomes a recipe, which runs through the same stages as any other.

This module decides what the recipe needs and the request leaves open, from what the sources hold: a development and a
test set, their sizes, the schedule, and how much of the network is trained.
"""

from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from damnatio.backbones.cutting import Cuttable
from damnatio.erasure.request import BYSTANDERS, DEVELOPMENT, PEOPLE, RETAIN, TEST, Request
from damnatio.faces.base import POOL
from damnatio.methods import METHODS
from damnatio.methods.closed_form import ClosedForm
from damnatio.models.card import Card
from damnatio.models.gate import ungated
from damnatio.pipeline import Pipeline
from damnatio.recipe.files import compose
from damnatio.recipe.schema import Recipe
from damnatio.support.devices import device
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table, codes_of
from damnatio.workspace import Workspace

SCALE = "all"
STEPS = 500
"""of fine-tuning, unless that is more than the paper's 40 epochs"""
HASTE = 30
"""factor of the learning rates: the paper's belong to tens of thousands of steps, and here are some hundreds; the
recipe for real faces (configs/lfw-mobilefacenet.yaml) has the same factor. A method that names its optimiser has a
rate for as many steps as here."""
MOST = {TEST: 1_000, DEVELOPMENT: 5_000}
"""most identities that are split off the retain source: the paper's test set, and enough pairs for an FMR of 1e-6"""


def recipe_of(
    request: Request,
    network: nn.Module,
    card: Card,
    weights: Path,
    partitions: dict[str, Any] | None = None,
    schedule: dict[str, Any] | None = None,
) -> Recipe:
    """The recipe of the request; without partitions it serves only to find them."""
    pools = {name: str(path) for name, path in request.sources().items()}
    faces = {"source": "collection", "pools": pools, "apart": [PEOPLE], "size": card.size, "resize": request.resize}
    forget: dict[str, Any] = {"scales": [SCALE], "methods": [request.method], **(schedule or {})}
    fields = METHODS.get(request.method).Settings.model_fields
    if "strangers" in fields:
        forget["settings"] = {request.method: {"strangers": request.strangers}}
    if "lr" in fields:
        own_schedule = fields["optimiser"].default is not None
        if not own_schedule:
            forget["settings"] = {request.method: {"lr": HASTE * fields["lr"].default}}
        freeze = request.freeze or _usual_cut(network)
        if freeze and freeze != "none":
            forget["freeze"] = freeze
    content = {
        "name": "erasure",
        "faces": faces,
        "model": {"weights": str(weights)},
        "partitions": partitions or {"scales": {SCALE: 1}},
        "forget": forget,
    }
    return compose(content, request.model, request.overrides)


def pipeline_of(request: Request, network: nn.Module, card: Card, weights: Path, workspace: Workspace) -> Pipeline:
    """The pipeline of the request, with everything decided."""
    first = Pipeline(recipe_of(request, network, card, weights), workspace)
    _check_pools(request, first.faces().path)
    partitions, images = partitions_of(request, Table.read(first.captures().path / "captures.parquet"))
    batch = min(128, max(2, images // 2))
    schedule = {"epochs": int(np.clip(round(STEPS * batch / images), 1, 40)), "batch": batch}
    return Pipeline(recipe_of(request, network, card, weights, partitions, schedule), workspace)


def _usual_cut(network: nn.Module) -> str | None:
    own = ungated(network)[0]
    return own.usual_cut() if device().type == "cpu" and isinstance(own, Cuttable) else None


def _check_pools(request: Request, faces: Path) -> None:
    """Refuse a source all of whose images were skipped, with the reasons."""
    kept = set(Table.read(faces / "faces.parquet")[POOL].tolist())
    skipped = Table.read(faces / "skipped.parquet").rows()
    for name, path in request.sources().items():
        if name not in kept:
            reasons = sorted({row["reason"] for row in skipped if str(row["image"]).startswith(f"{name}/")})
            offer = "" if request.resize else " Square faces of another size are brought to the model's by --resize."
            raise DamnatioError(f"No image of {path} can be used: {'; '.join(reasons[:3])}.{offer}")


def partitions_of(request: Request, captures: Table) -> tuple[dict[str, Any], int]:
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
    if issubclass(METHODS.get(request.method), ClosedForm):  # it learns from the others, and is measured on these
        control = min(control, (retain + 1) // 2)
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
    pools = {
        "F": PEOPLE,
        "R": RETAIN,
        "T": TEST if request.test else RETAIN,
        "D": DEVELOPMENT if request.development else RETAIN,
    }
    if request.bystanders:
        pools["B"] = BYSTANDERS
    partitions: dict[str, Any] = {
        "retain": retain, "control": control, "test": test, "development": development, "distractors": 0,
        "min_images": 2, "test_min_images": 2, "development_min_images": 1, "forget_min_images": 2,
        "scales": {SCALE: forget}, "pools": pools, "order": "scarcest-first",
    }  # fmt: skip
    return partitions, max(int(images[pool == RETAIN].sum() * retain / everyone), 1)
