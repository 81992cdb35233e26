"""Interchangeable parts by name: sources, backbones, heads and methods each live in a folder with one registry.

A part registers itself in the file that defines it, so adding one touches one file:

    @METHODS.register("HD")
    class HardDispersion(Method): ...

The files of the folder are imported at the first look-up, not before: `damnatio --help` must not import torch.
"""

import hashlib
import importlib
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from damnatio.support.errors import DamnatioError, nearest

PARTS = ("damnatio.methods.", "damnatio.heads.", "damnatio.backbones.", "damnatio.faces.", "damnatio.methods.frames.")
T = TypeVar("T")
P = TypeVar("P")


class Registry(Generic[T]):
    """Names of one kind of part, in the order of registration."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self._package = package
        self._parts: dict[str, T] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[P], P]:
        """Decorator: make the part known under `name`; a name is taken once."""

        def add(part: P) -> P:
            if name in self._parts:
                raise DamnatioError(f"The {self.kind} '{name}' is registered twice: choose another name.")
            self._parts[name] = part  # type: ignore[assignment]
            return part

        return add

    def names(self) -> list[str]:
        self._load()
        return list(self._parts)

    def get(self, name: str) -> T:
        self._load()
        if name not in self._parts:
            raise DamnatioError(f"There is no {self.kind} '{name}'.{nearest(name, self._parts)}")
        return self._parts[name]

    def fingerprint(self, name: str) -> str:
        """The content of the file that defines the part and of the parts that it builds on: an edited method is never
        served from an earlier run."""
        part: Any = self.get(name)
        return code_of(*(str(module.__file__) for module in _parts_behind(sys.modules[part.__module__])))

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            folder: Any = importlib.import_module(self._package)
            for module in pkgutil.iter_modules(folder.__path__):
                importlib.import_module(f"{self._package}.{module.name}")


def code_of(*files: str) -> str:
    """A hash of the code in these files, whatever their order; paths are below the package unless they are whole."""
    package = Path(__file__).parents[1]
    digests = sorted(hashlib.sha256((package / file).read_bytes()).hexdigest() for file in files)
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


def _parts_behind(module: ModuleType) -> set[ModuleType]:
    """The module and the other parts that it uses, near or far; not the machinery that all of them stand on."""
    found, waiting = {module}, [module]
    while waiting:
        for value in list(vars(waiting.pop()).values()):
            name = getattr(value, "__module__", None) or ""
            behind = sys.modules.get(name)
            if behind is not None and behind not in found and f"{name}.".startswith(PARTS):
                found.add(behind)
                waiting.append(behind)
    return found
