"""The flow: faces -> captures -> partitions -> f* -> f -> embeddings -> comparisons -> report.

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
from damnatio.faces.base import Faces, FaceSource, collect
from damnatio.methods import METHODS
from damnatio.methods.base import SCHEDULE, method_settings, schedule_of
from damnatio.partitions import FILE as PARTITIONS
from damnatio.partitions import Partitions
from damnatio.recipe.schema import Recipe
from damnatio.support.code import behind, digests
from damnatio.support.errors import DamnatioError
from damnatio.support.manifests import manifest_of, section_of
from damnatio.support.tables import Table
from damnatio.workspace import Output, Workspace

_NO_EFFECT = {"workers", "log_every", "checkpoint_seconds", "cache_gb"}
"""Settings that change how a result is reached, but never the result: no key depends on them."""


class Pipeline:
    def __init__(self, recipe: Recipe, workspace: Workspace) -> None:
        self.recipe, self.workspace = recipe, workspace
        self.reported = recipe
        """the recipe of the report, which also names the variants and scales that the report keeps from before"""
        self._known: dict[tuple[str, str], Output] = {}
        self._computes = True

    # --- stages -----------------------------------------------------------------------------------------------------

    def faces(self) -> Output:
        settings = {**_plain(self.recipe.faces), "content": self._content}
        source = self.recipe.faces.source

        def build(folder: Path) -> None:
            collect(self._source, folder)

        return self._stage("1-faces", source, settings, {}, build, SOURCES.code(source))

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
        inputs = {"faces": faces, "partitions": partitions}
        return self._stage("4-train", ORIGINAL, settings, inputs, build, self._network_code())

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

            set_threads(recipe.threads)
            backbone, card = load_backbone(original.path)
            rows, batch = self._table(partitions).trained(), recipe.evaluate.embed_batch
            images = Pixels(self.images(faces), card)
            keep_activations(cut(backbone, freeze)[0], images, rows, batch, folder, self.workspace.say)

        inputs = {"faces": faces, "partitions": partitions, "original": original}
        name = re.sub(r"[^\w.-]+", "-", freeze).strip("-")  # a value of an ONNX graph may bear any name
        return self._stage("4-trunk", name, {"freeze": freeze}, inputs, build, self._network_code())

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

            set_threads(recipe.threads)
            images, table = self.images(faces), self._table(partitions)
            fit(
                forgetting_job(recipe, images, table, original.path, scale, variant, trunk.path if trunk else None),
                folder,
                self.workspace.say,
            )

        elsewhere = ("scales", "methods", "settings", "retain")  # the variant's settings hold the retain term
        common = {k: v for k, v in _plain(schedule_of(recipe, variant)).items() if k not in elsewhere}
        own = {k: v for k, v in _plain(settings).items() if k not in SCHEDULE}  # they are in the schedule
        if own.get("retain") == "classify":  # outputs older than the choice have no word for it
            del own["retain"]
        keyed = {"scale": scale, "forget": common, "method": own, "seed": recipe.seed}
        code = METHODS.code(settings.method) | self._network_code()
        return self._stage("5-forget", f"{scale}-{variant}", keyed, inputs, build, code)

    def _mapped(self, scale: str, variant: str) -> Output:
        """f by a closed form: f* and a map of its embeddings, made of those that the evaluation of f* reads anyway."""
        recipe, settings = self.recipe, method_settings(self.recipe, variant)
        partitions, original, embeddings = self.partitions(), self.original(), self.embeddings(scale, ORIGINAL)

        def build(folder: Path) -> None:
            from damnatio.embedding import FILE, load_embeddings
            from damnatio.forgetting.closed_form import alter
            from damnatio.support.devices import set_threads

            set_threads(recipe.threads)
            table = self._table(partitions)
            units, rows = load_embeddings(embeddings.path / FILE, table.table)
            alter(recipe, table, original.path, units, rows, scale, variant, folder)

        keyed = {"scale": scale, "method": _plain(settings), "seed": recipe.seed}
        inputs = {"partitions": partitions, "original": original, "embeddings": embeddings}
        code = METHODS.code(settings.method) | self._network_code()
        return self._stage("5-forget", f"{scale}-{variant}", keyed, inputs, build, code)

    def _is_closed_form(self, variant: str) -> bool:
        from damnatio.methods.closed_form import ClosedForm

        return variant != ORIGINAL and issubclass(METHODS.get(method_settings(self.recipe, variant).method), ClosedForm)

    def embeddings(self, scale: str, variant: str) -> Output:
        """The embeddings of all images that the evaluation compares. f* has one set for all scales. A closed form maps
        those of f*: no image is embedded again."""
        faces, partitions, model = self.faces(), self.partitions(), self._model(scale, variant)
        name = ORIGINAL if variant == ORIGINAL else f"{scale}-{variant}"
        inputs = {"faces": faces, "partitions": partitions, "model": model}

        def build(folder: Path) -> None:
            from damnatio.embedding import embed, save_embeddings
            from damnatio.models.store import load_backbone
            from damnatio.support.devices import set_threads

            set_threads(self.recipe.threads)
            rows = self._table(partitions).evaluated()
            backbone, card = load_backbone(model.path)
            batch = self.recipe.evaluate.embed_batch
            save_embeddings(embed(backbone, card, self.images(faces), rows, batch, f"embed {name}"), rows, folder)

        def build_mapped(folder: Path) -> None:
            from damnatio.embedding import FILE, read_embeddings, save_embeddings
            from damnatio.forgetting.closed_form import mapped
            from damnatio.support.devices import set_threads

            set_threads(self.recipe.threads)
            units, rows = read_embeddings(inputs["original"].path / FILE)
            save_embeddings(mapped(model.path, units), rows, folder)

        if not self._is_closed_form(variant):
            return self._stage("6-embed", name, {}, inputs, build, self._network_code())
        inputs = {"model": model, "original": self.embeddings(scale, ORIGINAL)}
        code = METHODS.code(method_settings(self.recipe, variant).method) | self._network_code()
        return self._stage("6-embed", name, {}, inputs, build_mapped, code)

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

            set_threads(self.recipe.threads)
            backbone, card = load_backbone(inputs["original"].path)
            captures = Table.read(inputs["captures"].path / "captures.parquet")
            images, partitions = self.images(inputs["faces"]), self._table(inputs["partitions"])
            save_examples(backbone, card, images, partitions, captures["capture"], folder)

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
            from damnatio.evaluation.protocol import compare
            from damnatio.support.devices import set_threads

            set_threads(recipe.threads)
            table = self._table(partitions)
            reference = star = None
            if variant != ORIGINAL:
                reference = reference_of(inputs["original"].path)
                star = Embedded(*load_embeddings(inputs["original_embeddings"].path / FILE, table.table))
            units, rows = load_embeddings(embeddings.path / FILE, table.table)
            compared = compare(units, rows, table, scale, settings.nonmated_pairs, recipe.seed, star)
            write(measure(compared, settings.operating_points, reference, settings.replicates), folder)

        keyed = {"scale": scale, "seed": recipe.seed, **_plain(settings)}
        del keyed["embed_batch"]
        return self._stage("7-evaluate", f"{scale}-{variant}", keyed, inputs, build)

    def report(self, name: str = "report", *, faces_shown: bool = True) -> Path:
        """The report on every model whose evaluation for this recipe is finished, now or in an earlier call. That of
        an experiment has another `name`, and holds what the experiment asks for alone. Without `faces_shown` no figure
        shows a photograph."""
        forget = self.recipe.forget
        asked = [(scale, variant) for scale in forget.scales for variant in (ORIGINAL, *forget.methods)]
        found = {model: self.evaluation(*model) for model in asked}
        if name == "report":
            found |= self._keep_finished(found)
        recipe = self.reported
        models = [(scale, variant) for scale in recipe.forget.scales for variant in (ORIGINAL, *recipe.forget.methods)]
        models = [model for model in models if model in found]
        inputs = {"partitions": self.partitions()}
        if faces_shown:
            inputs["examples"] = self.examples()
        inputs |= {f"{scale}-{variant}": found[scale, variant] for scale, variant in models}

        def build(folder: Path) -> None:
            from damnatio.reporting.report import Evaluated, write_report

            evaluated = [Evaluated(scale, variant, inputs[f"{scale}-{variant}"].path) for scale, variant in models]
            examples = inputs["examples"].path if faces_shown else None
            write_report(recipe, inputs["partitions"].path, examples, evaluated, folder)

        code = behind(build)
        for variant in recipe.forget.methods:  # the page says which methods are reconstructions, and draws some of them
            code |= METHODS.code(method_settings(recipe, variant).method)
        return self.workspace.publish(name, {"recipe": _plain(recipe)}, inputs, build, code)

    def _keep_finished(self, asked: Mapping[tuple[str, str], Output]) -> dict[tuple[str, str], Output]:
        """The finished evaluations that differ from those asked for only in variant or scale; `reported` names them.

        A variant for which this recipe has other settings, or none, keeps the settings of the last report."""
        recipe = self.recipe
        last = _forget_section(manifest_of(self.workspace.folder / "report"))
        before: dict[str, list[str]] = {}
        for name, manifest in self.workspace.finished("7-evaluate"):
            scale = str(section_of(manifest, "settings").get("scale"))
            variant = name.removeprefix(f"{scale}-")
            if scale in recipe.partitions.scales and (scale, variant) not in asked:
                before.setdefault(variant, []).append(scale)
        kept: dict[tuple[str, str], Output] = {}
        settings = dict(recipe.forget.settings)
        for variant, scales in before.items():
            tries = [settings.get(variant, {})]
            if variant not in (ORIGINAL, *recipe.forget.methods):  # a name stands for one variant in a report
                tries.append(last["settings"].get(variant, {}))
            for own in tries:
                finished = {(scale, variant): self._finished(scale, variant, own) for scale in scales}
                if any(finished.values()):
                    kept |= {model: output for model, output in finished.items() if output}
                    settings |= {variant: own} if own else {}
                    break
        if kept:
            listed = ", ".join(f"{scale} {variant}" for scale, variant in kept)
            self.workspace.say(f"{'report':<13} {'':<12} kept     {listed}: finished before, with the same settings")
            shown = [variant for variant in (*last["methods"], *recipe.forget.methods, *before) if variant != ORIGINAL]
            named = {variant for _, variant in (*asked, *kept)}
            methods = [variant for variant in dict.fromkeys(shown) if variant in named]
            if named <= {ORIGINAL, *recipe.forget.methods}:
                methods = recipe.forget.methods
            scales = [scale for scale in recipe.partitions.scales if scale in {name for name, _ in (*asked, *kept)}]
            both = {"methods": methods, "scales": scales, "settings": settings}
            self.reported = recipe.model_copy(update={"forget": recipe.forget.model_copy(update=both)})
        return kept

    def _finished(self, scale: str, variant: str, own: dict[str, Any]) -> Output | None:
        """The evaluation of a variant with these settings of its own, if it is on disk."""
        look = copy.copy(self)  # keeps what was read of the source
        forget = self.recipe.forget.model_copy(update={"settings": {**self.recipe.forget.settings, variant: own}})
        look.recipe = self.recipe.model_copy(update={"forget": forget})
        look._known, look._computes = {}, False
        try:
            return look.evaluation(scale, variant)
        except DamnatioError:  # it is not finished, or its method is not known here
            return None

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
        settings = _plain(self.recipe.model)
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
    ) -> Output:
        """A stage asked for twice in one call is looked up once, so that it is announced once. `parts` holds the code
        that `build` chooses by name."""
        if (stage, name) in self._known:
            return self._known[stage, name]
        code = behind(build) | dict(parts or {})
        found = (
            self.workspace.stage(stage, name, settings, inputs, build, code)
            if self._computes
            else self.workspace.find(stage, name, settings, inputs, code)
        )
        if found is None:
            raise DamnatioError(f"{stage} {name} is not finished.")
        self._known[stage, name] = found
        return found


def _plain(settings: BaseModel) -> dict[str, Any]:
    """Settings as a key holds them. Unset settings are left out: so a new optional one makes no old output stale."""
    return settings.model_dump(mode="json", exclude=_NO_EFFECT, exclude_none=True)


def _forget_section(report: dict[str, Any]) -> dict[str, Any]:
    """The methods and their settings in the recipe of a report's manifest."""
    forget = section_of(section_of(section_of(report, "settings"), "recipe"), "forget")
    return {"methods": forget.get("methods", []), "settings": forget.get("settings", {})}
