"""Recipes from YAML files. A file says what differs from the defaults, or from the recipe that it names as its `base`;
`--set section.key=value` says what differs in one call, and `--set faces=PATH` names other faces. An unknown key is an
error."""

import hashlib
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import resources, util
from pathlib import Path
from typing import Any

import yaml

from damnatio.faces import SOURCES, detect
from damnatio.faces.detection import is_source
from damnatio.recipe.building import built, merged, source_of
from damnatio.recipe.experiments import experiments
from damnatio.recipe.schema import FaceSettings, ModelSettings, Recipe
from damnatio.recipe.sentences import validated
from damnatio.recipe.yaml_text import RepeatedKeyError, parse
from damnatio.support.errors import DamnatioError, nearest
from damnatio.support.files import need_regular


def load(source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in a file, or of a name that `damnatio ls recipes` shows, with `section.key=value` overrides."""
    return compose(_read(find(source)), source, overrides)


def of_faces(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe of the faces at a path and the defaults, for a look at them."""
    stem = re.sub(r"[^\w.-]+", "-", Path(path).expanduser().resolve().stem).strip("-.")
    content = {"name": f"faces-{stem}", "faces": detect(path).model_dump(exclude_unset=True)}
    return compose(content, path, overrides)


def compose(content: dict[str, Any], source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of this content, as a file would hold it; `source` names it where something is wrong."""
    before = source_of(content)
    for override in overrides:
        _override(content, override)
    _import_plugins(content.get("plugins"))
    if before is not None and source_of(content) in SOURCES.names():
        content["faces"] = _without_old_source(content["faces"], before, overrides)
    recipe = built(content, source)
    if recipe.experiments or recipe.seeds:
        experiments(recipe)  # a mistake in one of them is an error now, and not after the others
        return recipe
    from damnatio.recipe.checks import settled  # needs torch

    return settled(recipe, source)


def _import_plugins(plugins: Any) -> None:
    """Import the files that a recipe names; anything but a list of names is left to the checks of the recipe."""
    if isinstance(plugins, list) and all(isinstance(plugin, str) for plugin in plugins):
        for plugin in plugins:
            _import_file(Path(plugin))


def _without_old_source(faces: Mapping[str, Any], before: str, overrides: Sequence[str]) -> dict[str, Any]:
    """The faces' section after `--set faces.source`: without the keys of the source before.

    A key stays if it is set by `--set` as well, or if both sources have it from one class and it does not say where
    the images are: `size` means the same everywhere. A place that is set takes the place of the old one, whether it is
    called `root` or `path`; a manifest has both."""
    paths = [override.partition("=")[0].strip().split(".") for override in overrides]
    if ["faces"] in paths:  # the whole section is new
        return dict(faces)
    said = {path[1] for path in paths if path[0] == "faces" and len(path) > 1}
    kind = SOURCES.get(faces["source"]).Settings
    places = {"root", "path"}
    if before == faces["source"]:
        has_both = places <= {*kind.model_fields}
        old = places - said if said & places and not has_both else set()
        return {key: value for key, value in faces.items() if key not in old}
    other = SOURCES.get(before).Settings if before in SOURCES.names() else FaceSettings
    common = next(base for base in kind.__mro__ if issubclass(other, base) and issubclass(base, FaceSettings))
    kept = {*common.model_fields} - places | said
    return {key: value for key, value in faces.items() if key in kept}


def model_settings(weights: Path, overrides: Sequence[str] = (), **given: Any) -> ModelSettings:
    """Settings of the weights in a file or folder, without a recipe; `given` ones, and `model.key=value` overrides.

    An override `plugins=[FILE]` imports the file that has the network's code."""
    content: dict[str, Any] = {}
    for override in overrides:
        _override(content, override)
    _import_plugins(content.pop("plugins", None))
    foreign = [section for section in content if section != "model"]
    if foreign:
        raise DamnatioError(f"--set {foreign[0]}: there is a model here and no recipe; set model.key=value.")
    section = content.get("model", {})
    if not isinstance(section, dict):
        raise DamnatioError(f"--set model={section}: set one of its keys, model.key=value.")
    return validated(ModelSettings, {**given, **section, "weights": weights}, weights, "model")


def face_settings(source: str | Path, size: int) -> FaceSettings:
    """Settings of the faces at a path, or those of a recipe, at this size."""
    return detect(source, size=size) if names_faces(source) else load(source, [f"faces.size={size}"]).faces


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
    return installed if installed.is_dir() else Path(__file__).resolve().parents[3] / "configs"


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
    return merged(_read(beside if beside.is_file() else find(base), (*seen, path)), content)


def _override(content: dict[str, Any], override: str) -> None:
    """`section.key=value` is set in the recipe and holds in all its experiments, whatever they say themselves, and
    `experiments.NAME.section.key=value` in one. Of two overrides the last wins."""
    path, equals, text = override.partition("=")
    if not equals or not path:
        raise DamnatioError(f"--set {override}: write it as section.key=value.")
    keys = path.strip().split(".")
    try:
        value = parse(text)
    except RepeatedKeyError as error:
        raise DamnatioError(f"--set {override}: {error}.") from error
    except (ValueError, yaml.YAMLError):
        raise DamnatioError(f"--set {override}: the value is not valid YAML.") from None
    named = content.get("experiments")
    if keys[0] == "experiments":
        if len(keys) > 2 and not (isinstance(named, dict) and keys[1] in named):
            known = nearest(keys[1], named if isinstance(named, dict) else [])
            raise DamnatioError(f"--set {override}: there is no experiment '{keys[1]}'.{known}")
    elif isinstance(named, dict):
        for experiment in named.values():
            _drop(experiment, keys[:1] if keys == ["faces", "source"] else keys)
    if keys == ["seed"]:
        content.pop("seeds", None)
    if keys == ["faces"] and isinstance(value, str):
        value = _detected(value, content.get("faces"))
    place = content
    for section in keys[:-1]:
        if place.get(section) is None:
            place[section] = {}
        place = place[section]
        if not isinstance(place, dict):
            raise DamnatioError(f"--set {override}: '{section}' is a value, not a section.")
    place[keys[-1]] = value


def _drop(section: Any, keys: Sequence[str]) -> None:
    """Leave out what stands at these keys, and each section that is empty then."""
    if isinstance(section, dict) and keys[0] in section:
        _drop(section[keys[0]], keys[1:]) if keys[1:] else section.pop(keys[0])
        if section.get(keys[0]) == {}:
            del section[keys[0]]


def _detected(path: str, before: Any) -> dict[str, Any]:
    """The section of the faces at a path, with what the section before says of every source of images."""
    found = detect(path)
    common = {key for base in type(found).__mro__[1:] if issubclass(base, FaceSettings) for key in base.model_fields}
    kept = {key: before[key] for key in common - {"source"} if key in before} if isinstance(before, dict) else {}
    return {**kept, **found.model_dump(exclude_unset=True)}


def _import_file(path: Path) -> None:
    """Import a plugin once; what it registers is known from then on."""
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
    except (Exception, SystemExit) as error:  # a plugin that ends the process would end an erasure with its code
        del sys.modules[name]
        raise DamnatioError(f"plugins: {path} failed to import: {type(error).__name__}: {error}.") from error
