"""A short measurement of this machine: seconds of the recipe's own training, embedding, decoding and comparing.

The training runs through the training loop, with the recipe's network, head and batch, on noise. A machine on which a
few steps would take longer than the budget gets a smaller batch, and the speed per image is taken from that.
"""

import io
import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from damnatio.evaluation.comparing import search
from damnatio.evaluation.scanning import on_grid
from damnatio.faces.decoding import decode
from damnatio.models.card import Card
from damnatio.models.importing import import_model
from damnatio.models.inputs import Pixels, embed_inputs
from damnatio.models.store import ONNX, new_backbone, new_head
from damnatio.recipe.schema import Optimisation, Recipe
from damnatio.running.planning.counts import AtHand
from damnatio.support.devices import device, set_threads
from damnatio.support.workers import cores
from damnatio.training.loop import METRICS, Job, fit

BUDGET = 8.0
"""seconds that the steps of one probe may take"""
STEPS, MOST = 4, 40
"""steps of a probe at the recipe's batch, at the least and at most: a moment says little of a machine that has other
work too. The first is not counted, since it is slower"""
FEW, MORE = 2, 8
"""images of the batches of a probe that cannot take the recipe's"""
ROWS = 100_000
"""the most rows of the head of a probe, whose memory must not be a risk"""
SAMPLE = 256
"""images that are decoded"""


class Noise:
    """Images of noise, by any row."""

    def __init__(self, size: int, count: int) -> None:
        self._images = np.random.default_rng(0).integers(0, 256, (count, size, size, 3), np.uint8)

    def read(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        return self._images[np.asarray(rows) % len(self._images)]


@dataclass(frozen=True)
class Trained:
    """Images per second at the recipe's batch, and the batch that was measured."""

    images_per_second: float
    batch: int


def training_speed(recipe: Recipe, classes: int, budget: float = BUDGET) -> Trained:
    """The speed of f*'s training on this machine. Where the recipe's batch seems too much for the budget, two small
    batches say what a step takes whatever its batch, and what each image adds. If that is little after all, as with a
    small network on a busy machine, the recipe's batch is measured: one step of a small one says little there."""
    set_threads(recipe.threads, recipe.deterministic)
    batch = recipe.train.batch
    few = _seconds(recipe, classes, FEW, steps=2)
    steps = int(budget * FEW / (few * batch))
    if steps >= STEPS:
        return Trained(batch / _seconds(recipe, classes, batch, steps=min(steps, MOST)), batch)
    more = min(batch, max(MORE, int(budget / 2 * FEW / few)))
    each = max(_seconds(recipe, classes, more, steps=2) - few, 0) / (more - FEW) or few / FEW
    step = max(few - FEW * each, 0) + batch * each
    steps = int(budget / 2 / step)
    if steps >= STEPS:
        return Trained(batch / _seconds(recipe, classes, batch, steps=min(steps, MOST)), batch)
    return Trained(batch / step, more)


def _seconds(recipe: Recipe, classes: int, batch: int, steps: int) -> float:
    """Seconds of a step at this batch."""
    model, size = recipe.model, recipe.faces.size
    card = Card(backbone=model.backbone, dim=model.dim, size=size).fed_as(model)
    plain = {"epochs": 1, "batch": batch, "warmup_epochs": 0.0, "workers": 0, "log_every": 1, "checkpoint_seconds": 1e9}
    plain |= {"probe_pairs": 0, "compile": False}  # compiling takes longer than the whole measurement
    settings: Optimisation = recipe.train.model_copy(update=plain)
    rows = np.arange(steps * batch)
    torch.manual_seed(0)
    job = Job(
        title="probe",
        backbone=_network(recipe),
        head=new_head(model, min(classes, ROWS)).to(device()),
        card=card,
        inputs=Pixels(Noise(size, batch), card),
        rows=rows,
        labels=rows % min(classes, ROWS),
        settings=settings,
        lr=1e-6,
        seed=0,
    )
    with tempfile.TemporaryDirectory() as folder:
        fit(job, Path(folder))
        lines = (Path(folder) / METRICS).read_text().splitlines()
    speeds = [float(json.loads(line)["images_per_second"]) for line in lines[1:]]
    return batch * statistics.fmean(1 / max(speed, 0.05) for speed in speeds)


def _network(recipe: Recipe) -> nn.Module:
    model, size = recipe.model, recipe.faces.size
    if model.backbone == ONNX:
        return import_model(model, size)[0].to(device())
    return new_backbone(model.backbone, size, model.dim).to(device())


def embedding_speed(recipe: Recipe, budget: float = BUDGET) -> float:
    """Images per second that the recipe's network embeds on this machine."""
    set_threads(recipe.threads, recipe.deterministic)
    model, size = recipe.model, recipe.faces.size
    card, network = Card(backbone=model.backbone, dim=model.dim, size=size), _network(recipe)

    def taken(count: int) -> float:
        batch, started = min(count, recipe.evaluate.embed_batch), time.perf_counter()
        embed_inputs(network, Pixels(Noise(size, batch), card), dim=model.dim, rows=np.arange(count), batch=batch)
        return time.perf_counter() - started

    taken(FEW)
    count = max(FEW, min(4 * recipe.evaluate.embed_batch, int(budget / 4 * FEW / taken(FEW))))
    return count / taken(count)


def decoding_speed(recipe: Recipe, found: AtHand | str) -> float:
    """Images per second of the source; of JPEGs of noise on every core if the source is not at hand."""
    if isinstance(found, str):
        side = recipe.faces.size
        file = io.BytesIO()
        Image.fromarray(Noise(side, 1).read(np.array([0]))[0]).save(file, "JPEG", quality=75)
        started = time.perf_counter()
        for _ in range(SAMPLE):
            decode(file.getvalue())
        return SAMPLE / (time.perf_counter() - started) * cores()
    places = np.linspace(0, len(found.index) - 1, min(SAMPLE, len(found.index))).astype(np.int64)
    started = time.perf_counter()
    found.source.read(found.index.where(places))
    return len(places) / (time.perf_counter() - started)


def comparing_speed(recipe: Recipe) -> float:
    """Comparisons per second of a search through a gallery."""
    set_threads(recipe.threads, recipe.deterministic)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((8192, recipe.model.dim))
    units = on_grid(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    codes = np.arange(len(units))
    probes = units[:2048]
    started = time.perf_counter()
    search(probes, codes[:2048], units, codes)
    return len(probes) * len(units) / (time.perf_counter() - started)
