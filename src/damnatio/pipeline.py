"""The flow: faces -> captures -> partitions -> f* -> f -> embeddings -> comparisons.

Each method of `Pipeline` is one stage. It asks for the stages before it, says what its output depends on, and computes
only what is not on disk. The stage's own module does the computing.

The key of an output holds the digest of every module that its build reaches (`support/code.py`), so after an edit of
code every output that depends on it is computed anew. Comments and docstrings do not count. Stages are chained by the
content of their inputs: if an output comes out equal after an edit, the stages after it are not computed anew.
"""

import copy
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.faces import SOURCES
from damnatio.faces.base import Faces, FaceSource
from damnatio.faces.collecting import collect
from damnatio.methods import METHODS
from damnatio.methods.base import SCHEDULE, method_settings, schedule_of
from damnatio.partitions import FILE as PARTITIONS
from damnatio.partitions import Partitions
from damnatio.recipe.schema import Recipe
from damnatio.support.code import behind, digests
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table
from damnatio.workspace import Output, Wanted, Workspace

_NO_EFFECT = {
    "workers",
    "log_every",
    "probe_pairs",
    "checkpoint_seconds",
    "checkpoint_share",
    "cache_gb",
    "slurm",
    "tensorboard",
    "deterministic",
}
"""Settings that change how a result is reached, but never the result: no key depends on them."""


class Pipeline:
    def __init__(self, recipe: Recipe, workspace: Workspace) -> None:
        self.recipe, self.workspace = recipe, workspace
        self._known: dict[tuple[str, str], Output] = {}
        self._computes = True

    # --- stages -----------------------------------------------------------------------------------------------------

    def faces(self) -> Output:
        settings = {**plain(self.recipe.faces), "content": self._content}
        source = self.recipe.faces.source

        def build(folder: Path) -> None:
            collect(self._source, folder)

        return self._stage("1-faces", source, settings, {}, build, SOURCES.code(source), shared=True)

    def captures(self) -> Output:
        faces = self.faces()

        def build(folder: Path) -> None:
            from damnatio.captures import find_captures

            find_captures(self.images(faces), self.recipe.captures, folder)

        return self._stage("2-captures", "all", plain(self.recipe.captures), {"faces": faces}, build, shared=True)

    def partitions(self) -> Output:
        settings, seed = self.recipe.partitions, self.recipe.seed
        captures = self.captures()

        def build(folder: Path) -> None:
            from damnatio.partitions import draw

            draw(Table.read(captures.path / "captures.parquet"), settings, seed).write(folder)

        return self._stage("3-partitions", "all", {**plain(settings), "seed": seed}, {"captures": captures}, build)

    def original(self) -> Output:
        """f*: trained on the retain identities, or imported."""
        recipe = self.recipe
        faces, partitions = self.faces(), self.partitions()

        def build(folder: Path) -> None:
            from damnatio.support.devices import set_threads
            from damnatio.training.loop import fit
            from damnatio.training.original import import_original, original_job

            set_threads(recipe.threads, recipe.deterministic)
            if recipe.model.weights:
                import_original(recipe, self.images(faces), self._table(partitions), folder)
            else:
                fit(original_job(recipe, self.images(faces), self._table(partitions)), folder, self.workspace.say)

        settings: dict[str, Any] = {"model": self._model_settings}
        if not recipe.model.weights:
            settings |= {"train": plain(recipe.train), "seed": recipe.seed}
        inputs = {"faces": faces, "partitions": partitions}
        return self._stage("4-train", ORIGINAL, settings, inputs, build, self._network_code(), shared=True)

    def trunk(self) -> Output:
        """The activations of the trunk, the frozen layers of f*, for every method."""
        recipe, freeze = self.recipe, self.recipe.forget.freeze
        assert freeze is not None
        faces, partitions, original = self.faces(), self.partitions(), self.original()

        def build(folder: Path) -> None:
            from damnatio.backbones.cutting import cut
            from damnatio.models.inputs import Pixels
            from damnatio.models.store import load_backbone
            from damnatio.support.devices import set_threads
            from damnatio.training.trunks import keep_activations

            set_threads(recipe.threads, recipe.deterministic)
            backbone, card = load_backbone(original.path)
            rows, batch = self._table(partitions).trained(), recipe.evaluate.embed_batch
            images = Pixels(self.images(faces), card)
            keep_activations(cut(backbone, freeze)[0], images, rows, batch, folder, self.workspace.say)

        inputs = {"faces": faces, "partitions": partitions, "original": original}
        name = re.sub(r"[^\w.-]+", "-", freeze).strip("-")  # a value of an ONNX graph may bear any name
        return self._stage("4-trunk", name, {"freeze": freeze}, inputs, build, self._network_code(), shared=True)

    def altered(self, scale: str, variant: str) -> Output:
        """f: the original model after forgetting."""
        if self._is_closed_form(variant):
            return self._mapped(scale, variant)
        recipe = self.recipe
        faces, partitions, original = self.faces(), self.partitions(), self.original()
        settings = method_settings(recipe, variant)
        inputs = {"faces": faces, "partitions": partitions, "original": original}
        trunk = self.trunk() if recipe.forget.freeze is not None else None
        if trunk:
            inputs["trunk"] = trunk

        def build(folder: Path) -> None:
            from damnatio.forgetting.fine_tuning import forgetting_job
            from damnatio.support.devices import set_threads
            from damnatio.training.loop import fit

            set_threads(recipe.threads, recipe.deterministic)
            images, table = self.images(faces), self._table(partitions)
            fit(
                forgetting_job(recipe, images, table, original.path, scale, variant, trunk.path if trunk else None),
                folder,
                self.workspace.say,
            )

        elsewhere = ("scales", "methods", "settings", "retain")  # the variant's settings hold the retain term
        common = {k: v for k, v in plain(schedule_of(recipe, variant)).items() if k not in elsewhere}
        own = {k: v for k, v in plain(settings).items() if k not in SCHEDULE}  # they are in the schedule
        if own.get("retain") == "classify":  # outputs older than the choice have no word for it
            del own["retain"]
        keyed = {"scale": scale, "forget": common, "method": own, "seed": recipe.seed}
        code = METHODS.code(settings.method) | self._network_code()
        return self._stage("5-forget", f"{scale}-{variant}", keyed, inputs, build, code, shared=True)

    def _mapped(self, scale: str, variant: str) -> Output:
        """f by a closed form: f* and a map of its embeddings, made of those that the evaluation of f* reads anyway."""
        recipe, settings = self.recipe, method_settings(self.recipe, variant)
        partitions, original, embeddings = self.partitions(), self.original(), self.embeddings(scale, ORIGINAL)
        strangers = self.strangers()

        def build(folder: Path) -> None:
            from damnatio.embedding import FILE, load_embeddings
            from damnatio.forgetting.closed_form import alter
            from damnatio.support.devices import set_threads

            set_threads(recipe.threads, recipe.deterministic)
            table = self._table(partitions)
            units, rows = load_embeddings(embeddings.path / FILE, table.table)
            others = load_embeddings(strangers.path / FILE, table.table)
            alter(recipe, table, original.path, units, rows, others, scale, variant, folder)

        keyed = {"scale": scale, "method": plain(settings), "seed": recipe.seed}
        inputs = {"partitions": partitions, "original": original, "embeddings": embeddings, "strangers": strangers}
        code = METHODS.code(settings.method) | self._network_code()
        return self._stage("5-forget", f"{scale}-{variant}", keyed, inputs, build, code)

    def _is_closed_form(self, variant: str) -> bool:
        from damnatio.methods.closed_form import ClosedForm

        return variant != ORIGINAL and issubclass(METHODS.get(method_settings(self.recipe, variant).method), ClosedForm)

    def embeddings(self, scale: str, variant: str) -> Output:
        """The embeddings of all images that the evaluation compares. f* has one set for all scales."""
        if self._is_closed_form(variant):
            return self._mapped_embeddings(scale, variant)
        faces, partitions, model = self.faces(), self.partitions(), self._model(scale, variant)
        name = ORIGINAL if variant == ORIGINAL else f"{scale}-{variant}"
        inputs = {"faces": faces, "partitions": partitions, "model": model}

        def build(folder: Path) -> None:
            from damnatio.embedding import write_embeddings
            from damnatio.models.store import load_backbone
            from damnatio.support.devices import set_threads

            set_threads(self.recipe.threads, self.recipe.deterministic)
            rows = self._table(partitions).evaluated()
            backbone, card = load_backbone(model.path)
            batch = self.recipe.evaluate.embed_batch
            write_embeddings(backbone, card, self.images(faces), rows, batch, folder, f"embed {name}")

        return self._stage("6-embed", name, {}, inputs, build, self._network_code(), shared=True)

    def strangers(self) -> Output:
        """The embeddings under f* of people on whom nothing is measured, for closed forms to learn from."""
        faces, partitions, original = self.faces(), self.partitions(), self.original()
        pool = (self.recipe.partitions.pools or {}).get("F")

        def build(folder: Path) -> None:
            from damnatio.embedding import write_embeddings
            from damnatio.forgetting.closed_form import strangers
            from damnatio.models.store import load_backbone
            from damnatio.support.devices import set_threads

            set_threads(self.recipe.threads)
            rows = strangers(self._table(partitions), pool)
            backbone, card = load_backbone(original.path)
            batch = self.recipe.evaluate.embed_batch
            write_embeddings(backbone, card, self.images(faces), rows, batch, folder, "embed strangers")

        inputs = {"faces": faces, "partitions": partitions, "original": original}
        return self._stage("6-embed", "strangers", {"pool": pool}, inputs, build, self._network_code(), shared=True)

    def _mapped_embeddings(self, scale: str, variant: str) -> Output:
        """The embeddings of a closed form, which maps those of f*: no image is embedded again."""
        model, original = self.altered(scale, variant), self.embeddings(scale, ORIGINAL)

        def build(folder: Path) -> None:
            from damnatio.embedding import FILE, read_embeddings, save_embeddings
            from damnatio.forgetting.closed_form import mapped
            from damnatio.support.devices import set_threads

            set_threads(self.recipe.threads, self.recipe.deterministic)
            units, rows = read_embeddings(original.path / FILE)
            save_embeddings(mapped(model.path, units), rows, folder)

        inputs = {"model": model, "original": original}
        code = METHODS.code(method_settings(self.recipe, variant).method) | self._network_code()
        return self._stage("6-embed", f"{scale}-{variant}", {}, inputs, build, code)

    def examples(self) -> Output:
        """Some pairs of images of one identity, for the figure of capture instances."""
        inputs = {
            "faces": self.faces(),
            "captures": self.captures(),
            "partitions": self.partitions(),
            "original": self.original(),
        }

        def build(folder: Path) -> None:
            from damnatio.embedding import save_examples
            from damnatio.models.store import load_backbone
            from damnatio.support.devices import set_threads

            set_threads(self.recipe.threads, self.recipe.deterministic)
            backbone, card = load_backbone(inputs["original"].path)
            captures = Table.read(inputs["captures"].path / "captures.parquet")
            images, partitions = self.images(inputs["faces"]), self._table(inputs["partitions"])
            scale = self.recipe.captures.scale
            save_examples(backbone, card, images, partitions, captures["capture"], scale, folder)

        return self._stage("6-embed", "examples", {}, inputs, build, self._network_code())

    def evaluation(self, scale: str, variant: str) -> Output:
        recipe, settings = self.recipe, self.recipe.evaluate
        partitions, embeddings = self.partitions(), self.embeddings(scale, variant)
        inputs = {"partitions": partitions, "embeddings": embeddings}
        if variant != ORIGINAL:
            inputs["original"] = self.evaluation(scale, ORIGINAL)
            inputs["original_embeddings"] = self.embeddings(scale, ORIGINAL)

        def build(folder: Path) -> None:
            from damnatio.embedding import FILE, load_embeddings
            from damnatio.evaluation.legacy import Embedded
            from damnatio.evaluation.measuring import measure, reference_of, write
            from damnatio.evaluation.plane import FILE as PLANE
            from damnatio.evaluation.plane import write_plane
            from damnatio.evaluation.protocol import compare
            from damnatio.support import processes
            from damnatio.support.devices import set_threads

            set_threads(recipe.threads, recipe.deterministic)
            table = self._table(partitions)
            reference = star = None
            if variant != ORIGINAL:
                reference = reference_of(inputs["original"].path)
                star = Embedded(*load_embeddings(inputs["original_embeddings"].path / FILE, table.table))
            units, rows = load_embeddings(embeddings.path / FILE, table.table)
            compared = compare(units, rows, table, scale, settings.nonmated_pairs, recipe.seed, star)
            write(measure(compared, settings.operating_points, reference, settings.replicates), folder)
            start = None if variant == ORIGINAL else inputs["original"].path / PLANE
            processes.from_main(lambda: write_plane(units, rows, table, scale, recipe.seed, start, folder / PLANE))

        keyed = {"scale": scale, "seed": recipe.seed, **plain(settings)}
        del keyed["embed_batch"]
        return self._stage("7-evaluate", f"{scale}-{variant}", keyed, inputs, build, shared=True)

    def pictures(self) -> Output:
        """The photographs of the page's map."""
        faces, scales = self.faces(), self.recipe.forget.scales
        inputs = {"faces": faces, **{scale: self.evaluation(scale, ORIGINAL) for scale in scales}}

        def build(folder: Path) -> None:
            from damnatio.evaluation.plane import FILE
            from damnatio.reporting.pictures import write_pictures

            write_pictures(self.images(faces), [inputs[scale].path / FILE for scale in scales], folder)

        return self._stage("8-pictures", "map", {}, inputs, build)

    def models(self) -> list[tuple[str, str]]:
        """Scale and variant of f* and of the altered models."""
        forget = self.recipe.forget
        return [(scale, variant) for scale in forget.scales for variant in (ORIGINAL, *forget.methods)]

    def finished(self, scale: str, variant: str, own: dict[str, Any]) -> Output | None:
        """The evaluation of a variant with these settings of its own, if it is on disk."""
        forget = self.recipe.forget.model_copy(update={"settings": {**self.recipe.forget.settings, variant: own}})
        look = self.again(self.workspace)
        look.recipe, look._computes = self.recipe.model_copy(update={"forget": forget}), False
        try:
            return look.evaluation(scale, variant)
        except DamnatioError:  # it is not finished, or its method is not known here
            return None

    def again(self, workspace: Workspace) -> "Pipeline":
        """The same recipe from its beginning. What was read of the source is kept."""
        other = copy.copy(self)
        other.workspace, other._known = workspace, {}
        return other

    # --- shared by the stages -----------------------------------------------------------------------------------------

    @cached_property
    def _source(self) -> FaceSource:
        return SOURCES.get(self.recipe.faces.source)(self.recipe.faces)

    @cached_property
    def _content(self) -> Any:
        """Read once per call: every stage asks for the faces, and a folder may list millions of images."""
        return self._source.fingerprint()

    @cached_property
    def _model_settings(self) -> dict[str, Any]:
        settings = plain(self.recipe.model)
        if self.recipe.model.weights:
            from damnatio.models.importing import content_of

            settings["weights"] = content_of(self.recipe.model)  # its content, not its place
        return settings

    def _network_code(self) -> dict[str, str]:
        """The code of the network and its head, which are chosen by name."""
        from damnatio.backbones import BACKBONES
        from damnatio.heads import HEADS
        from damnatio.models.store import ONNX

        model = self.recipe.model
        network = digests(["damnatio.models.onnx.graph"]) if model.backbone == ONNX else BACKBONES.code(model.backbone)
        return network | HEADS.code(model.head)

    def _model(self, scale: str, variant: str) -> Output:
        return self.original() if variant == ORIGINAL else self.altered(scale, variant)

    def images(self, faces: Output) -> Faces:
        return Faces(faces.path, self._source)

    def _table(self, partitions: Output) -> Partitions:
        return Partitions.read(partitions.path / PARTITIONS)

    def _stage(
        self,
        stage: str,
        name: str,
        settings: dict[str, Any],
        inputs: dict[str, Output],
        build: Callable[[Path], None],
        parts: Mapping[str, str] | None = None,
        *,
        shared: bool = False,
    ) -> Output:
        """A stage asked for twice in one call is looked up once, so that it is announced once. `parts` holds the code
        that `build` chooses by name. Several processes run a `shared` build together."""
        if (stage, name) in self._known:
            return self._known[stage, name]
        code = behind(build) | dict(parts or {})
        found = (
            self.workspace.stage(stage, name, settings, inputs, build, code, shared=shared)
            if self._computes and self._can_make(stage, inputs)
            else Wanted(stage, name, settings, inputs, code).find(self.workspace.folder)
        )
        if found is None:
            raise DamnatioError(self._why_missing(stage, name))
        self._known[stage, name] = found
        return found

    def _can_make(self, stage: str, inputs: Mapping[str, Output]) -> bool:
        """Whether what a stage is made from is at hand."""
        return True

    def _why_missing(self, stage: str, name: str) -> str:
        return f"{stage} {name} is not finished."


def plain(settings: BaseModel) -> dict[str, Any]:
    """Settings as a key holds them. Unset settings are left out: so a new optional one makes no old output stale."""
    return settings.model_dump(mode="json", exclude=_NO_EFFECT, exclude_none=True)
