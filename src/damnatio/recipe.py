"""The recipe: everything that decides a run, typed. Defaults are the paper's numbers (section IV); a YAML file says
what differs, from them or from the recipe that it names as its `base`; `--set section.key=value` says what differs this
once. An unknown key is an error."""

import re
from collections.abc import Mapping, Sequence
from importlib import resources, util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError, field_validator, model_validator

from damnatio.errors import DamnatioError, nearest
from damnatio.files import need_regular
from damnatio.yaml_text import RepeatedKeyError, parse

if TYPE_CHECKING:
    from damnatio.methods.base import MethodSettings

Model = TypeVar("Model", bound=BaseModel)
Share = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Images = Annotated[int, Field(ge=1, le=65_536)]
"""held in memory at once"""
Label = Annotated[str, Field(pattern=r"^[\w.+-]+$")]
"""a name that can stand in a file's"""
MAX_SIDE = 512
"""pixels of an aligned crop's side"""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FaceSettings(Section):
    """Where the images come from. Each source adds its own keys in its own file under `faces/`."""

    source: str
    size: int = Field(112, ge=16, le=MAX_SIDE, description="side of the square images, in pixels")
    cache_gb: float = Field(8.0, ge=0, description="decoded pixels are kept on disk while they take no more than this")


class CaptureSettings(Section):
    threshold: float = Field(
        30.0,
        gt=0,
        description="two images closer than this are one capture instance (IV-B); on the scale of 112x112x3 values",
    )


class PartitionSettings(Section):
    """Identities of each partition (IV-A, IV-C and Table II)."""

    retain: Count = 100_000
    control: Count = 1_000
    test: Count = 1_000
    development: int = Field(35_850, ge=2)
    distractors: int = Field(50_000, ge=0)
    scales: dict[Label, Count] = Field({"S1": 1_000, "S2": 5_000}, min_length=1)
    min_images: Count = Field(4, description="images of an identity of the control, the test or the development set")
    test_min_images: int | None = Field(None, ge=2, description="of the test set, where it is another number")
    development_min_images: Count | None = Field(None, description="of the development set, likewise")
    forget_min_images: int = Field(4, ge=2, description="capture instances of a forget identity")
    pools: dict[Literal["F", "R", "T", "D"], str] | None = Field(
        None, description="by partition: the part of a collection of sources that it is drawn from; unset: all faces"
    )
    forget_train: Share = Field(0.8, description="share of a forget identity's images on which the losses operate")


class ModelSettings(Section):
    """The network and its classifier head (IV-A). With `weights`, f* is imported and not trained."""

    backbone: str = "iresnet34"
    dim: int = Field(512, ge=2, le=16_384)
    weights: Path | None = Field(None, description="f*'s own: a file, or a folder that holds a model and its card")
    colour: Literal["RGB", "BGR"] | None = Field(None, description="how f* is fed; unset: as its card says, or RGB")
    mean: float | None = Field(None, description="f* is fed (x - mean) / deviation; unset: as its card says, or 127.5")
    deviation: float | None = Field(None, gt=0, description="unset: as its card says, or 127.5")
    licence: str | None = Field(None, description="of f*'s weights, for its card; unset: as its card says")
    head: str = "cosface"
    scale: float = Field(64.0, gt=0, le=10_000)
    margin: float = Field(0.4, ge=0, le=10)
    head_options: dict[str, float] = {}


class Optimisation(Section):
    """What the training loop needs, for f* and for every method alike."""

    epochs: Count = Field(40, le=1_000_000)
    batch: Images = Field(128, ge=2, description="retain images a step")
    optimiser: Literal["sgd", "adamw"] = "sgd"
    momentum: float = Field(0.9, ge=0, lt=1)
    weight_decay: float = Field(5e-4, ge=0)
    warmup_epochs: float = Field(0.0, ge=0)
    power: float = Field(1.0, ge=0, description="of the polynomial schedule: lr (1 - t/T)^power")
    clip: float = Field(5.0, ge=0, description="bound on the norm of the backbone's gradient; 0 for none")
    precision: Literal["fp32", "bf16"] = "fp32"
    flip: bool = Field(True, description="mirror each training image with probability one half")
    workers: int = Field(0, ge=0, le=256, description="processes that read images; 0 reads in the loop")
    log_every: Count = 20
    checkpoint_seconds: float = Field(30.0, ge=0)

    @model_validator(mode="after")
    def _warm_up_ends(self) -> "Optimisation":
        if self.warmup_epochs >= self.epochs:
            raise ValueError(f"warmup_epochs ({self.warmup_epochs:g}) must be less than epochs ({self.epochs})")
        return self


class TrainSettings(Optimisation):
    lr: float = Field(0.1, gt=0)


class ForgetSettings(Optimisation):
    """Fine-tuning from f* (IV-B). A method's learning rate, weights and margins are its own, under `settings`."""

    scales: list[Label] = Field([], min_length=1, description="unset: all that partitions.scales has")
    methods: list[Label] = ["CURE", "NG+", "PD", "HD", "CP", "EC", "OF"]
    settings: dict[str, dict[str, Any]] = Field({}, description="by method; `method: OF` under another name adds a row")
    identities_per_batch: Images = 8
    images_per_identity: Images = Field(8, ge=2)
    batch_norm: Literal["train", "frozen"] = Field(
        "train", description="whether BatchNorm follows the fine-tuning batches or keeps the statistics of f*"
    )
    freeze: str | None = Field(
        None, description="the last stage of f* that stays as it is: its activations are kept and the rest is trained"
    )


class EvaluateSettings(Section):
    operating_points: list[Share] = Field([1e-4, 1e-2], min_length=1, max_length=100)
    nonmated_pairs: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        description="non-mated comparisons a group, drawn by the seed; 0 counts every one of them",
    )
    replicates: int = Field(
        1_000, ge=0, le=100_000, description="of the bootstrap over subjects; 0 gives Wilson's intervals alone"
    )
    embed_batch: Images = 512

    @field_validator("operating_points")
    @classmethod
    def _ascending(cls, points: list[float]) -> list[float]:
        return sorted(set(points))


class Recipe(Section):
    name: str = Field(pattern=r"^[.-]*\w[\w.-]*$", description="that of the run's folder: `..` is none")
    seed: int = Field(1, ge=0, lt=2**63)
    plugins: list[str] = Field([], description="Python files to import first: methods and parts of your own")
    threads: int = Field(
        0,
        ge=0,
        le=1_024,
        description="processor threads; 0 takes one per core, which serves on a busy machine too. The last bits of "
        "trained weights depend on the number: set it where two runs shall be the same",
    )
    faces: SerializeAsAny[FaceSettings]
    captures: CaptureSettings = CaptureSettings()
    partitions: PartitionSettings = PartitionSettings()
    model: ModelSettings = ModelSettings()
    train: TrainSettings = TrainSettings()
    forget: ForgetSettings = ForgetSettings()
    evaluate: EvaluateSettings = EvaluateSettings()

    @model_validator(mode="after")
    def _consistent(self) -> "Recipe":
        counts = self.partitions
        if counts.control > counts.retain:
            raise ValueError(f"partitions.control ({counts.control}) is drawn from partitions.retain ({counts.retain})")
        if not self.forget.scales:  # a default of two names would be one that a recipe of one scale never wrote
            forget = self.forget.model_copy(update={"scales": list(counts.scales)})
            object.__setattr__(self, "forget", forget)
        for scale in self.forget.scales:
            if scale not in counts.scales:
                known = nearest(scale, counts.scales).rstrip(".")
                raise ValueError(f"forget.scales: there is no scale '{scale}'.{known}")
        for key, names in (("scales", self.forget.scales), ("methods", self.forget.methods)):
            if len(set(names)) < len(names):
                raise ValueError(f"forget.{key} names one of them twice")
        if "original" in self.forget.methods:
            raise ValueError("forget.methods: 'original' is f* itself and always there")
        return self


def load(source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in a file, or of a name that `damnatio ls recipes` shows, with `section.key=value` overrides."""
    return compose(_read(find(source)), source, overrides)


def of_faces(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe of the faces at a path and the defaults, for a look at them."""
    from damnatio.faces import detect

    stem = re.sub(r"[^\w.-]+", "-", Path(path).expanduser().resolve().stem).strip("-.")
    content = {"name": f"faces-{stem}", "faces": detect(path).model_dump(exclude_unset=True)}
    return compose(content, path, overrides)


def compose(content: dict[str, Any], source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of this content, as a file would hold it; `source` names it where something is wrong."""
    for override in overrides:
        _override(content, override)
    plugins = content.get("plugins")
    if isinstance(plugins, list) and all(isinstance(plugin, str) for plugin in plugins):  # else told below
        for plugin in plugins:
            _import_file(Path(plugin))
    faces = content.get("faces")
    if isinstance(faces, Mapping) and "source" in faces:
        from damnatio.faces import SOURCES

        content["faces"] = validated(SOURCES.get(str(faces["source"])).Settings, faces, source, "faces")
    recipe = validated(Recipe, content, source)
    if recipe.model.weights and recipe.model.weights.expanduser().exists():  # the import tells of weights that are not
        from damnatio.importing import resolved

        recipe = recipe.model_copy(update={"model": resolved(recipe.model, recipe.faces.size)})
    _check_names(recipe)
    for label in {*recipe.forget.methods, *recipe.forget.settings}:
        method_settings(recipe, label, source)
    return recipe


def _check_names(recipe: Recipe) -> None:
    """A misspelt part is told now, not after an hour of the stages before it."""
    from damnatio.backbones import BACKBONES
    from damnatio.models import ONNX, new_head

    new_head(recipe.model, classes=1)
    imported = recipe.model.backbone == ONNX and recipe.model.weights
    backbone = None if imported else BACKBONES.get(recipe.model.backbone)
    if recipe.forget.freeze is not None:
        import torch

        from damnatio.importing import import_model
        from damnatio.trunks import split

        with torch.device("cpu" if backbone is None else "meta"):
            network = backbone(recipe.faces.size, recipe.model.dim) if backbone else import_model(recipe.model)[0]
            split(network, recipe.forget.freeze)


def method_settings(recipe: Recipe, label: str, source: str | Path = "") -> "MethodSettings":
    """The hyper-parameters of the row `label`: the method's defaults and what the recipe says differs."""
    from damnatio.methods import METHODS

    given = {"method": label, **recipe.forget.settings.get(label, {})}
    return validated(
        METHODS.get(str(given["method"])).Settings, given, source or recipe.name, f"forget.settings.{label}"
    )


def model_settings(weights: Path, overrides: Sequence[str] = ()) -> ModelSettings:
    """Settings of the weights in a file or folder alone, with `model.key=value` overrides."""
    content: dict[str, Any] = {}
    for override in overrides:
        _override(content, override)
    foreign = [section for section in content if section != "model"]
    if foreign:
        raise DamnatioError(f"--set {foreign[0]}: there is a model here and no recipe; set model.key=value.")
    given = content.get("model", {})
    if not isinstance(given, dict):
        raise DamnatioError(f"--set model={given}: set one of its keys, model.key=value.")
    return validated(ModelSettings, {**given, "weights": weights}, weights, "model")


def face_settings(source: str | Path, size: int) -> FaceSettings:
    """Settings of the faces at a path, or those of a recipe, at this size."""
    from damnatio.faces import detect

    return detect(source, size=size) if names_faces(source) else load(source, [f"faces.size={size}"]).faces


def validated(model: type[Model], content: Any, source: str | Path, place: str = "") -> Model:
    """The content as a section, or one sentence that names each key at fault."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise DamnatioError(_sentence(error, model, source, place)) from error


def find(source: str | Path) -> Path:
    path, built_in = Path(source), _built_in()
    if path.is_file():
        return path
    if str(source) in built_in:
        return built_in[str(source)]
    need_regular(path, "The recipe")
    raise DamnatioError(f"There is no recipe '{source}', as a file or by name.{nearest(str(source), built_in)}")


def names_faces(source: str | Path) -> bool:
    """Whether this names faces and not a recipe; a name that `damnatio ls recipes` shows stays a recipe."""
    from damnatio.faces.detection import is_source

    built_in = _built_in()
    if str(source) in built_in or Path(source).is_file() or is_source(source):
        return str(source) not in built_in and is_source(source)
    need_regular(source)
    raise DamnatioError(
        f"There is no folder or file {source}, nor a recipe of that name.{nearest(str(source), built_in)}"
    )


def _built_in() -> dict[str, Path]:
    return {recipe.stem: recipe for recipe in sorted(configs().glob("*.yaml"))}


def configs() -> Path:
    """The folder of the recipes that come with the package (a checkout keeps them at its top)."""
    installed = Path(str(resources.files("damnatio"))) / "configs"
    return installed if installed.is_dir() else Path(__file__).resolve().parents[2] / "configs"


def _read(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    try:
        content = parse(path.read_text(encoding="utf-8"))
    except RepeatedKeyError as error:
        raise DamnatioError(f"The recipe {path}: {error}: leave one of them out.") from error
    except (OSError, ValueError, yaml.YAMLError) as error:  # ValueError: not UTF-8, or a date of no calendar
        raise DamnatioError(f"The recipe {path} cannot be read: {' '.join(str(error).split())}.") from error
    if not isinstance(content, dict):
        raise DamnatioError(f"The recipe {path} must be a mapping of sections such as 'faces:' and 'model:'.")
    content.setdefault("name", path.stem)
    base = content.pop("base", None)
    if base is None:
        return content
    if not isinstance(base, str):
        raise DamnatioError(f"The recipe {path}: 'base' names one other recipe (given: {base!r}).")
    if path in seen:
        raise DamnatioError(f"The recipe {path} is its own base.")
    beside = path.parent / f"{base}.yaml"
    return _merged(_read(beside if beside.is_file() else find(base), (*seen, path)), content)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """`above` over `below`, section by section; another source or set of scales replaces the whole of the old one."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        whole = key == "scales" or (isinstance(value, dict) and "source" in value)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) and not whole else value
    return merged


def _override(content: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    if not equals or not path:
        raise DamnatioError(f"--set {override}: write it as section.key=value.")
    *sections, key = path.strip().split(".")
    place = content
    for section in sections:
        if place.get(section) is None:
            place[section] = {}
        place = place[section]
        if not isinstance(place, dict):
            raise DamnatioError(f"--set {override}: '{section}' is a value, not a section.")
    try:
        place[key] = parse(text)
    except RepeatedKeyError as error:
        raise DamnatioError(f"--set {override}: {error}.") from error
    except (ValueError, yaml.YAMLError):
        raise DamnatioError(f"--set {override}: the value is not valid YAML.") from None


def _import_file(path: Path) -> None:
    """Import a plugin once; what it registers is known from then on."""
    import hashlib
    import sys

    need_regular(path, "plugins:")
    if not path.is_file():
        raise DamnatioError(f"plugins: there is no file {path}.")
    name = f"damnatio_plugin_{path.stem}_{hashlib.sha256(bytes(path.resolve())).hexdigest()[:8]}"
    if name in sys.modules:
        return
    spec = util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise DamnatioError(f"plugins: {path} is not a Python file.")
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise DamnatioError(f"plugins: {path} failed to import: {type(error).__name__}: {error}.") from error


def _sentence(error: ValidationError, model: type[BaseModel], source: str | Path, place: str) -> str:
    """pydantic's findings, one clause each, with the nearest known key for a misspelt one."""
    clauses = []
    for finding in error.errors():
        path = [str(part) for part in finding["loc"]]
        where = ".".join([place, *path] if place else path)
        if finding["type"] == "extra_forbidden":
            clauses.append(f"unknown key '{where}'.{nearest(path[-1], _keys(model, path[:-1]))}")
        elif finding["type"] == "missing":
            clauses.append(f"'{where}' is missing.")
        else:
            value = finding.get("input")
            given = f" (given: {value!r})" if isinstance(value, str | int | float) else ""
            message = finding["msg"].removeprefix("Value error, ")
            clauses.append(f"{where + ': ' if where else ''}{message}{given}.")
    return f"Recipe {source}: " + " ".join(clauses)


def _keys(model: Any, path: Sequence[str]) -> list[str]:
    """The known keys of the section at `path` below a model."""
    for part in path:
        model = model.model_fields[part].annotation
    return list(model.model_fields)
