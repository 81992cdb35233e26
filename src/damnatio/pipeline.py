"""The flow: faces -> captures -> partitions -> f* -> f -> embeddings -> comparisons -> report.

Each method of `Pipeline` is one stage. It asks for the stages before it, says what its output depends on, and computes
only what is not on disk. What a stage computes stands in the stage's own module.

The code of the evaluation and of the report is part of their keys, and so is that of a method, a network, a head and
the renderer: an edit computes them anew. The code of the other stages is not: nobody wants to train f* again because a
comment changed. A change there that alters results raises `version`.
"""

import copy
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from damnatio.evaluation import CODE
from damnatio.evaluation.measuring import ORIGINAL
from damnatio.faces import SOURCES
from damnatio.faces.base import Faces, FaceSource, collect
from damnatio.methods.base import method_settings
from damnatio.partitions import FILE as PARTITIONS
from damnatio.partitions import Partitions
from damnatio.recipe.schema import Recipe
from damnatio.support.errors import DamnatioError
from damnatio.support.manifests import manifest_of
from damnatio.support.registry import code_of
from damnatio.support.tables import Table
from damnatio.workspace import Output, Workspace

_NO_EFFECT = {"workers", "log_every", "checkpoint_seconds", "cache_gb"}
"""Settings that change how a result is reached and never the result: no key depends on them."""


class Pipeline:
    def __init__(self, recipe: Recipe, workspace: Workspace) -> None:
        self.recipe, self.workspace = recipe, workspace
        self.reported = recipe
        """the recipe as the report has it: with the methods and scales that it keeps from before"""
        self._known: dict[tuple[str, str], Output] = {}
        self._computes = True

    # --- stages -----------------------------------------------------------------------------------------------------

    def faces(self) -> Output:
        settings = {**_plain(self.recipe.faces), "content": self._content}
        return self._stage(
            "1-faces", self.recipe.faces.source, settings, {}, lambda folder: collect(self._source, folder)
        )

    def captures(self) -> Output:
        faces = self.faces()

        def build(folder: Path) -> None:
            from damnatio.captures import find_captures

            find_captures(self.images(faces), self.recipe.captures.threshold, folder)

        return self._stage("2-captures", "all", _plain(self.recipe.captures), {"faces": faces}, build)

    def partitions(self) -> Output:
        settings, seed = self.recipe.partitions, self.recipe.seed
        captures = self.captures()

        def build(folder: Path) -> None:
            from damnatio.partitions import draw

            draw(Table.read(captures.path / "captures.parquet"), settings, seed).write(folder)

        return self._stage("3-partitions", "all", {**_plain(settings), "seed": seed}, {"captures": captures}, build)

    def original(self) -> Output:
        """f*: trained on the retain identities, or imported."""
        recipe = self.recipe
        faces, partitions = self.faces(), self.partitions()

        def build(folder: Path) -> None:
            from damnatio.support.devices import set_threads
            from damnatio.training.loop import fit
            from damnatio.training.original import import_original, original_job

            set_threads(recipe.threads)
            if recipe.model.weights:
                import_original(recipe, self.images(faces), self._table(partitions), folder)
            else:
                fit(original_job(recipe, self.images(faces), self._table(partitions)), folder, self.workspace.say)

        settings: dict[str, Any] = {"model": self._model_settings}
        if not recipe.model.weights:
            settings |= {"train": _plain(recipe.train), "seed": recipe.seed}
        return self._stage("4-train", ORIGINAL, settings, {"faces": faces, "partitions": partitions}, build)

    def trunk(self) -> Output:
        """Activations of the frozen part of f*, for every method."""
        recipe, freeze = self.recipe, self.recipe.forget.freeze
        assert freeze is not None
        faces, partitions, original = self.faces(), self.partitions(), self.original()

        def build(folder: Path) -> None:
            from damnatio.backbones.cutting import cut
            from damnatio.models.inputs import Pixels
            from damnatio.models.store import load_backbone
            from damnatio.support.devices import set_threads
            from damnatio.training.trunks import keep_activations

            set_threads(recipe.threads)
            backbone, card = load_backbone(original.path)
            rows, batch = self._table(partitions).trained(), recipe.evaluate.embed_batch
            images = Pixels(self.images(faces), card)
            keep_activations(cut(backbone, freeze)[0], images, rows, batch, folder, self.workspace.say)

        inputs = {"faces": faces, "partitions": partitions, "original": original}
        label = re.sub(r"[^\w.-]+", "-", freeze).strip("-")  # a value of an ONNX graph may bear any name
        return self._stage("4-trunk", label, {"freeze": freeze}, inputs, build)

    def altered(self, scale: str, label: str) -> Output:
        """f: the original model after forgetting."""
        from damnatio.methods import METHODS

        recipe = self.recipe
        faces, partitions, original = self.faces(), self.partitions(), self.original()
        settings = method_settings(recipe, label)
        inputs = {"faces": faces, "partitions": partitions, "original": original}
        trunk = self.trunk() if recipe.forget.freeze is not None else None
        if trunk:
            inputs["trunk"] = trunk

        def build(folder: Path) -> None:
            from damnatio.forgetting import forgetting_job
            from damnatio.support.devices import set_threads
            from damnatio.training.loop import fit

            set_threads(recipe.threads)
            images, table = self.images(faces), self._table(partitions)
            fit(
                forgetting_job(recipe, images, table, original.path, scale, label, trunk.path if trunk else None),
                folder,
                self.workspace.say,
            )

        common = {k: v for k, v in _plain(recipe.forget).items() if k not in ("scales", "methods", "settings")}
        return self._stage(
            "5-forget",
            f"{scale}-{label}",
            {
                "scale": scale,
                "forget": common,
                "method": _plain(settings),
                "code": METHODS.fingerprint(settings.method),
                "seed": recipe.seed,
            },
            inputs,
            build,
        )

    def embeddings(self, scale: str, label: str) -> Output:
        """Of all images that the evaluation compares. f* has one set, whatever the scale."""
        faces, partitions, model = self.faces(), self.partitions(), self._model(scale, label)
        name = ORIGINAL if label == ORIGINAL else f"{scale}-{label}"

        def build(folder: Path) -> None:
            from damnatio.embedding import embed, save_embeddings
            from damnatio.models.store import load_backbone
            from damnatio.support.devices import set_threads

            set_threads(self.recipe.threads)
            rows = self._table(partitions).evaluated()
            backbone, card = load_backbone(model.path)
            batch = self.recipe.evaluate.embed_batch
            save_embeddings(embed(backbone, card, self.images(faces), rows, batch, f"embed {name}"), rows, folder)

        inputs = {"faces": faces, "partitions": partitions, "model": model}
        return self._stage("6-embed", name, {}, inputs, build)

    def evaluation(self, scale: str, label: str) -> Output:
        recipe, settings = self.recipe, self.recipe.evaluate
        partitions, embeddings = self.partitions(), self.embeddings(scale, label)
        inputs = {"partitions": partitions, "embeddings": embeddings}
        if label != ORIGINAL:
            inputs["original"] = self.evaluation(scale, ORIGINAL)

        def build(folder: Path) -> None:
            from damnatio.embedding import FILE, load_embeddings
            from damnatio.evaluation.measuring import measure, reference_of, write
            from damnatio.evaluation.protocol import compare
            from damnatio.support.devices import set_threads

            set_threads(recipe.threads)
            table = self._table(partitions)
            units, rows = load_embeddings(embeddings.path / FILE, table.table)
            compared = compare(units, rows, table, scale, settings.nonmated_pairs, recipe.seed)
            reference = reference_of(inputs["original"].path) if label != ORIGINAL else None
            write(measure(compared, settings.operating_points, reference, settings.replicates), folder)

        keyed = {"scale": scale, "seed": recipe.seed, "code": code_of(*CODE), **_plain(settings)}
        del keyed["embed_batch"]
        return self._stage("7-evaluate", f"{scale}-{label}", keyed, inputs, build)

    def report(self) -> Path:
        """Of every model whose evaluation for this recipe is finished: those asked for now, and those from before."""
        forget = self.recipe.forget
        asked = [(scale, label) for scale in forget.scales for label in (ORIGINAL, *forget.methods)]
        found = {model: self.evaluation(*model) for model in asked}
        found |= self._keep_finished(found)
        recipe = self.reported
        models = [(scale, label) for scale in recipe.forget.scales for label in (ORIGINAL, *recipe.forget.methods)]
        models = [model for model in models if model in found]
        inputs = {"captures": self.captures(), "partitions": self.partitions(), "original": self.original()}
        inputs |= {f"{scale}-{label}": found[scale, label] for scale, label in models}

        def build(folder: Path) -> None:
            from damnatio.reporting.report import Evaluated, write_report

            evaluated = [Evaluated(scale, label, inputs[f"{scale}-{label}"].path) for scale, label in models]
            write_report(recipe, self.images(self.faces()), inputs, evaluated, folder)

        looks = [f"reporting/{name}" for name in ("figures.py", "layouts.py", "mechanism.py", "grids.py", "page.html")]
        keyed = {"recipe": _plain(recipe), "code": code_of("reporting/report.py", "reporting/findings.py", *looks)}
        return self.workspace.publish("report", keyed, inputs, build)

    def _keep_finished(self, asked: Mapping[tuple[str, str], Output]) -> dict[tuple[str, str], Output]:
        """The finished evaluations that differ from those asked for in method or scale alone; `reported` names them.

        A row that this recipe gives other settings, or none, is taken as the last report had it."""
        recipe = self.recipe
        last = _forget_section(manifest_of(self.workspace.folder / "report"))
        rows: dict[str, list[str]] = {}
        for name, manifest in self.workspace.finished("7-evaluate"):
            scale = str(manifest["settings"].get("scale"))
            label = name.removeprefix(f"{scale}-")
            if scale in recipe.partitions.scales and (scale, label) not in asked:
                rows.setdefault(label, []).append(scale)
        kept: dict[tuple[str, str], Output] = {}
        settings = dict(recipe.forget.settings)
        for label, scales in rows.items():
            tries = [settings.get(label, {})]
            if label not in (ORIGINAL, *recipe.forget.methods):  # a report has one row of a name
                tries.append(last["settings"].get(label, {}))
            for own in tries:
                finished = {(scale, label): self._finished(scale, label, own) for scale in scales}
                if any(finished.values()):
                    kept |= {model: output for model, output in finished.items() if output}
                    settings |= {label: own} if own else {}
                    break
        if kept:
            listed = ", ".join(f"{scale} {label}" for scale, label in kept)
            self.workspace.say(f"{'report':<13} {'':<12} kept     {listed}: finished before, with the same settings")
            shown = [label for label in (*last["methods"], *recipe.forget.methods, *rows) if label != ORIGINAL]
            named = {label for _, label in (*asked, *kept)}
            methods = [label for label in dict.fromkeys(shown) if label in named]
            if named <= {ORIGINAL, *recipe.forget.methods}:
                methods = recipe.forget.methods
            scales = [scale for scale in recipe.partitions.scales if scale in {name for name, _ in (*asked, *kept)}]
            both = {"methods": methods, "scales": scales, "settings": settings}
            self.reported = recipe.model_copy(update={"forget": recipe.forget.model_copy(update=both)})
        return kept

    def _finished(self, scale: str, label: str, own: dict[str, Any]) -> Output | None:
        """The evaluation of a row with these settings of its own, if it is on disk."""
        look = copy.copy(self)  # with what was read of the source
        forget = self.recipe.forget.model_copy(update={"settings": {**self.recipe.forget.settings, label: own}})
        look.recipe = self.recipe.model_copy(update={"forget": forget})
        look._known, look._computes = {}, False
        try:
            return look.evaluation(scale, label)
        except DamnatioError:  # not finished, or no method that is known here
            return None

    # --- what stages share ------------------------------------------------------------------------------------------

    @cached_property
    def _source(self) -> FaceSource:
        return SOURCES.get(self.recipe.faces.source)(self.recipe.faces)

    @cached_property
    def _content(self) -> Any:
        """Read once a call: a folder of millions of images is listed for it, and every stage asks for the faces."""
        return self._source.fingerprint()

    @cached_property
    def _model_settings(self) -> dict[str, Any]:
        from damnatio.backbones import BACKBONES
        from damnatio.heads import HEADS
        from damnatio.models.store import ONNX

        model = self.recipe.model
        graph = code_of("models/onnx/graph.py", "models/onnx/operators.py") if model.backbone == ONNX else ""
        code = [graph or BACKBONES.fingerprint(model.backbone), HEADS.fingerprint(model.head)]
        settings = {**_plain(model), "code": code}
        if model.weights:
            from damnatio.models.importing import content_of

            settings["weights"] = content_of(model)  # what it is, not where it lies
        return settings

    def _model(self, scale: str, label: str) -> Output:
        return self.original() if label == ORIGINAL else self.altered(scale, label)

    def images(self, faces: Output) -> Faces:
        return Faces(faces.path, self._source)

    def _table(self, partitions: Output) -> Partitions:
        return Partitions.read(partitions.path / PARTITIONS)

    def _stage(
        self,
        stage: str,
        label: str,
        settings: dict[str, Any],
        inputs: dict[str, Output],
        build: Callable[[Path], None],
        version: int = 1,
    ) -> Output:
        """A stage asked for twice in one call is looked up once, so that it is announced once."""
        if not self._computes:
            found = self.workspace.find(stage, label, settings, inputs, version)
            if found is None:
                raise DamnatioError(f"{stage} {label} is not finished.")
            return found
        if (stage, label) not in self._known:
            self._known[stage, label] = self.workspace.stage(stage, label, settings, inputs, build, version)
        return self._known[stage, label]


def _plain(settings: BaseModel) -> dict[str, Any]:
    """As a key holds them. What is left unset is left out, so that a new optional setting makes no old output stale."""
    return settings.model_dump(mode="json", exclude=_NO_EFFECT, exclude_none=True)


def _forget_section(report: dict[str, Any]) -> dict[str, Any]:
    """Of the recipe in a report's manifest."""
    forget = report.get("settings", {}).get("recipe", {}).get("forget", {})
    return {"methods": forget.get("methods", []), "settings": forget.get("settings", {})}
