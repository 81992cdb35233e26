"""Interchangeable parts by name: sources, backbones, heads and methods each live in a folder with one registry.

A part registers itself in the file that defines it, so adding one touches one file:

    @METHODS.register("HD")
    class HardDispersion(Method): ...

The files of the folder are imported at the first look-up, not before: `damnatio --help` must not import torch.
"""

import hashlib
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from damnatio.errors import DamnatioError, nearest

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
        """The content of the file that defines the part: an edited method is never served from an earlier run."""
        source = Path(inspect.getfile(self.get(name)))  # type: ignore[arg-type]
        return hashlib.sha256(source.read_bytes()).hexdigest()[:16]

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            folder: Any = importlib.import_module(self._package)
            for module in pkgutil.iter_modules(folder.__path__):
                importlib.import_module(f"{self._package}.{module.name}")
