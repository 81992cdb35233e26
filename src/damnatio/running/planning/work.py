"""The work of a recipe, stage by stage: images, steps, comparisons, memory and disk, whatever the machine."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.methods import METHODS
from damnatio.methods.base import ForgetSet, Method, MethodSettings, fine_tuning, method_settings, schedule_of
from damnatio.models.store import new_head
from damnatio.recipe.schema import Optimisation, Recipe
from damnatio.running.planning.counts import Counts
from damnatio.running.planning.networks import Network, logits_bytes, network_of
from damnatio.support.files import content_key

FLOAT = 4
"""bytes of a float32, in which weights are kept and updated"""
ROW = 120
"""bytes of an image in the tables of stages 1 to 3 together, two thirds of them distances to others of its identity"""
DOUBLE = 8
"""bytes of a value in an evaluation, which is exact in float64"""
RESULTS = 20_000_000
"""bytes of an evaluation: curves, distributions and the scores of the retain set"""
KEPT = 2
"""checkpoints of a training: the last one, and the one that is being written or was written before"""
STATES = {"sgd": 1, "adamw": 2}
"""values that an optimiser keeps of each weight"""


@dataclass(frozen=True)
class Memory:
    """Bytes on one device. The sum is an upper bound: not all of them are alive at the same moment."""

    weights: int
    gradients: int
    optimiser: int
    activations: int
    matrix: int
    """the class vectors of this device, their gradients and what the optimiser keeps of them"""
    logits: int
    method: int

    @property
    def total(self) -> int:
        return sum(vars(self).values())


@dataclass(frozen=True)
class Piece:
    """One output of one stage. Numbers of images count an image once per pass through the network."""

    stage: str
    name: str
    key: str
    """equal for the same output of two experiments, which is made once"""
    needs: tuple[str, ...] = ()
    steps: int = 0
    gradients: int = 0
    forwards: int = 0
    decoded: int = 0
    compared: int = 0
    precision: str = "fp32"
    batch: int = 0
    """of a training"""
    share: float = 1.0
    """cost of an image as a share of the whole network's: less if a trunk is frozen"""
    disk: int = 0
    scratch: int = 0
    """bytes on disk while it runs"""
    scale: str = ""
    variant: str = ""

    @property
    def images(self) -> int:
        return self.gradients + self.forwards + self.decoded


class Work:
    """The pieces of one recipe, in the order of the pipeline, and the memory of its trainings."""

    def __init__(self, recipe: Recipe, counts: Counts) -> None:
        self.recipe, self.counts = recipe, counts

    @cached_property
    def network(self) -> Network:
        """The whole network at the batch of f*."""
        return self._network(self.recipe.train, None)

    @cached_property
    def tuned(self) -> Network:
        """What the methods train, at the same batch."""
        settings = self.recipe.forget.model_copy(update={"batch": self.recipe.train.batch})
        return self._network(settings, self.recipe.forget.freeze)

    def _network(self, settings: Optimisation, freeze: str | None) -> Network:
        model = self.recipe.model
        return network_of(
            model.backbone,
            model.dim,
            self.recipe.faces.size,
            batch=settings.batch,
            precision=settings.precision,
            freeze=freeze,
            weights=str(model.weights or ""),
        )

    @property
    def head_flops(self) -> float:
        """Operations of the head for one image, forward."""
        return 2.0 * self.counts.classes * self.recipe.model.dim

    # --- the stages -------------------------------------------------------------------------------------------------

    @cached_property
    def pieces(self) -> list[Piece]:
        first = [self._faces(), self._captures(), self._partitions(), self._train()]
        if self.recipe.forget.freeze is not None:
            first.append(self._trunk())
        first.append(self._embed("", ORIGINAL))
        rest = []
        for scale in self.recipe.forget.scales:
            rest.append(self._evaluate(scale, ORIGINAL))
            for variant in self.recipe.forget.methods:
                rest += [self._forget(scale, variant), self._embed(scale, variant), self._evaluate(scale, variant)]
        ends = tuple(piece.key for piece in rest if piece.stage == "evaluate")
        return [*first, *rest, Piece("report", "tables, figures, one page", "report", ends)]

    @cached_property
    def _keys(self) -> dict[str, str]:
        """The key of each stage that experiments may share."""
        recipe = self.recipe
        dump = {name: section.model_dump(mode="json") for name, section in recipe if hasattr(section, "model_dump")}
        faces = content_key(dump["faces"])
        captures = content_key([faces, dump["captures"]])
        partitions = content_key([captures, dump["partitions"], recipe.seed])
        return {
            "faces": f"faces {faces}",
            "captures": f"captures {captures}",
            "partitions": f"partitions {partitions}",
            "train": f"train {content_key([partitions, dump['model'], dump['train']])}",
        }

    def _model_key(self, scale: str, variant: str) -> str:
        if variant == ORIGINAL:
            return self._keys["train"]
        settings = [schedule_of(self.recipe, variant), method_settings(self.recipe, variant)]
        plain = [section.model_dump(mode="json", exclude={"methods", "scales", "settings"}) for section in settings]
        return f"forget {content_key([self._keys['train'], scale, variant, plain])}"

    def _faces(self) -> Piece:
        disk = self.pixels + self.counts.images * ROW
        return Piece("faces", "index and decode", self._keys["faces"], decoded=self.counts.images, disk=disk)

    @property
    def pixels(self) -> int:
        """Bytes of decoded images that are stored."""
        count = self.counts.images * self.recipe.faces.size**2 * 3
        return count if count <= self.recipe.faces.cache_gb * 1e9 else 0

    def _captures(self) -> Piece:
        return Piece("captures", "from stored distances", self._keys["captures"], (self._keys["faces"],))

    def _partitions(self) -> Piece:
        return Piece("partitions", "the draw", self._keys["partitions"], (self._keys["captures"],))

    def _train(self) -> Piece:
        recipe, key, needs = self.recipe, self._keys["train"], (self._keys["partitions"],)
        disk = FLOAT * (self.network.parameters + self._matrix)
        if recipe.model.weights:
            return Piece("train", "f*, imported", key, needs, forwards=self.counts.retain, disk=disk)
        steps = recipe.train.epochs * (self.counts.retain // recipe.train.batch)
        states = 1 + STATES[recipe.train.optimiser]
        scratch = KEPT * states * FLOAT * (self.network.parameters + self._matrix)
        gradients = steps * recipe.train.batch
        return Piece(
            "train",
            "f*",
            key,
            needs,
            steps=steps,
            gradients=gradients,
            precision=recipe.train.precision,
            batch=recipe.train.batch,
            disk=disk,
            scratch=scratch,
        )

    def _trunk(self) -> Piece:
        images = self.counts.retain + self.counts.forget_set()
        disk = 2 * 2 * images * math.prod(self.tuned.cut)  # two views, in half precision
        share = 1 - self.tuned.forward / self.network.forward
        key = f"trunk {self._keys['train']} {self.recipe.forget.freeze}"
        needs = (self._keys["train"],)
        return Piece("trunk", str(self.recipe.forget.freeze), key, needs, forwards=2 * images, disk=disk, share=share)

    def _forget(self, scale: str, variant: str) -> Piece:
        recipe, counts = self.recipe, self.counts
        settings, schedule = method_settings(recipe, variant), schedule_of(recipe, variant)
        key = self._model_key(scale, variant)
        if not isinstance(settings, MethodSettings):  # a closed form needs the embeddings of f* and no training
            disk = FLOAT * self.network.parameters
            needs = (f"embed {self._keys['train']}",)
            return Piece("forget", f"{scale} {variant}", key, needs, disk=disk, scale=scale, variant=variant)
        kind = fine_tuning(settings.method)
        steps = schedule.epochs * (counts.retain // schedule.batch)
        drawn = self._forget_batch(scale, variant)
        forwards = counts.forget_train[scale]  # before the first step
        if kind.frozen_model:
            forwards += steps * (schedule.batch + drawn)
        elif settings.retain == "distil":
            forwards += steps * schedule.batch
        if refresh := getattr(settings, "refresh", 0):
            forwards += -(-schedule.epochs // refresh) * counts.forget_train[scale]
        parameters = self.tuned.parameters + self._matrix + self._extra(scale, variant)[0]
        needs = (self._keys["train"],)
        if recipe.forget.freeze is not None:
            needs = (f"trunk {self._keys['train']} {recipe.forget.freeze}",)
        return Piece(
            "forget",
            f"{scale} {variant}",
            key,
            needs,
            steps=steps,
            gradients=steps * (schedule.batch + drawn),
            forwards=forwards,
            precision=schedule.precision,
            batch=schedule.batch,
            share=self.tuned.forward / self.network.forward,
            disk=FLOAT * (self.network.parameters + self._matrix),
            scratch=KEPT * (1 + STATES[schedule.optimiser]) * FLOAT * parameters,
            scale=scale,
            variant=variant,
        )

    def _embed(self, scale: str, variant: str) -> Piece:
        model, counts = self._model_key(scale, variant), self.counts
        closed = variant != ORIGINAL and not self._trains(variant)
        images = 0 if closed else counts.evaluated
        disk = counts.evaluated * (FLOAT * self.recipe.model.dim + 8)
        name = "f*" if variant == ORIGINAL else f"{scale} {variant}"
        return Piece(
            "embed", name, f"embed {model}", (model,), forwards=images, disk=disk, scale=scale, variant=variant
        )

    def _evaluate(self, scale: str, variant: str) -> Piece:
        recipe, counts = self.recipe, self.counts
        evaluated = counts.forget_eval[scale]
        gallery = counts.templates + counts.forget_identities[scale]
        galleries = 2 if variant == ORIGINAL else 3  # forget-train, forget-eval, and what f* has enrolled
        searches = galleries * (counts.development + counts.probes + evaluated) * gallery
        most = recipe.evaluate.nonmated_pairs or math.inf
        groups = (counts.development, counts.test, counts.forget_train[scale], evaluated)
        pairs = sum(min(most, count * (count - 1) // 2) for count in groups)
        model = self._model_key(scale, variant)
        key = f"evaluate {content_key([model, scale, recipe.evaluate.model_dump(mode='json')])}"
        needs = [f"embed {model}"]
        if variant != ORIGINAL:
            star = self._keys["train"]
            needs.append(f"evaluate {content_key([star, scale, recipe.evaluate.model_dump(mode='json')])}")
        name = f"{scale} {'f*' if variant == ORIGINAL else variant}"
        return Piece(
            "evaluate",
            name,
            key,
            tuple(needs),
            compared=int(searches + pairs),
            disk=RESULTS,
            scale=scale,
            variant=variant,
        )

    @property
    def evaluation_memory(self) -> int:
        """Bytes of the processor's memory: an altered model is evaluated beside f*."""
        return 2 * self.counts.evaluated * self.recipe.model.dim * DOUBLE

    # --- sizes ------------------------------------------------------------------------------------------------------

    @property
    def _matrix(self) -> int:
        return self.counts.classes * self.recipe.model.dim

    def _trains(self, variant: str) -> bool:
        return isinstance(method_settings(self.recipe, variant), MethodSettings)

    def _forget_batch(self, scale: str, variant: str) -> int:
        """Forget images of a step."""
        schedule, people = schedule_of(self.recipe, variant), self.counts.forget_identities[scale]
        each = min(schedule.images_per_identity, max(1, self.counts.forget_train[scale] // people))
        return min(schedule.identities_per_batch, people) * each

    def _extra(self, scale: str, variant: str) -> tuple[int, int]:
        """Values that a method trains beside the network and the head, and values that it only keeps."""
        settings = method_settings(self.recipe, variant)
        kind = METHODS.get(settings.method)
        if not issubclass(kind, Method):
            return 0, 0
        count, people = self.counts.forget_train[scale], self.counts.forget_identities[scale]
        images = ForgetSet(np.arange(count), np.arange(count) % people)
        method = kind(settings, images, new_head(self.recipe.model, 2))  # zeros, which take no memory until written
        trained = sum(p.numel() for p in method.parameters() if p.requires_grad)
        return trained, sum(b.numel() for b in method.buffers())

    def memory(self, piece: Piece, devices: int) -> Memory:
        """What one of so many devices holds that train together. Each has its share of the batch and of the rows."""
        recipe = self.recipe
        dim, classes = recipe.model.dim, self.counts.classes
        settings: Optimisation = recipe.train
        network, batch, copies, kept, rows, scored = self.network, recipe.train.batch, 1, 0, classes, recipe.train.batch
        if piece.stage == "forget":
            settings, network, copies = schedule_of(recipe, piece.variant), self.tuned, 2  # f* stays beside f
            drawn = self._forget_batch(piece.scale, piece.variant)
            batch, scored = settings.batch + drawn, settings.batch
            trained, kept = self._extra(piece.scale, piece.variant)
            if trained:
                rows, scored = classes + trained // dim, batch
        states, own = STATES[settings.optimiser], -(-rows // devices)
        size = FLOAT * network.parameters
        images = min(-(-batch // devices), settings.micro_batch or batch)
        drawn_rows = max(round(own * (recipe.model.partial_fc or 1.0)), 1)  # Partial FC
        return Memory(
            weights=copies * size,
            gradients=size * (2 if devices > 1 else 1),  # what is sent between processes is a copy
            optimiser=states * size,
            activations=round(network.activations * images / recipe.train.batch),
            matrix=own * dim * FLOAT * (2 + states),
            logits=logits_bytes(recipe.model.model_dump_json(exclude={"weights"}), drawn_rows, scored),
            method=FLOAT * kept,
        )
