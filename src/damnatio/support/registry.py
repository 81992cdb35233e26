"""Interchangeable parts by name: sources, backbones, heads and methods each live in a folder with one registry.

A part registers itself in the file that defines it, so adding one touches one file:

    @METHODS.register("HD")
    class HardDispersion(Method): ...

The files of the folder are imported at the first look-up, not before: `damnatio --help` must not import torch.
"""

import importlib
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from damnatio.support.code import digest_of_file, digests
from damnatio.support.errors import DamnatioError, nearest

T = TypeVar("T")
P = TypeVar("P")


class Registry(Generic[T]):
    """Names of one kind of part, in the order of registration."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self._package = package
        self._parts: dict[str, T] = {}
        self._outside: dict[str, dict[str, str]] = {}
        """the code of parts that are no part of this package, as it was when it was imported"""
        self._loaded = False

    def register(self, name: str) -> Callable[[P], P]:
        """Decorator: make the part known under `name`; a name is taken once."""

        def add(part: P) -> P:
            if name in self._parts:
                raise DamnatioError(f"The {self.kind} '{name}' is registered twice: choose another name.")
            self._parts[name] = part  # type: ignore[assignment]
            self._outside[name] = _code_outside(str(part.__module__))
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

    def code(self, name: str) -> dict[str, str]:
        """The digests of the code behind a part, so that an edited method is never served from an earlier run."""
        part: Any = self.get(name)
        return self._outside[name] or digests([part.__module__])

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            folder: Any = importlib.import_module(self._package)
            for module in pkgutil.iter_modules(folder.__path__):
                importlib.import_module(f"{self._package}.{module.name}")


def _code_outside(module: str) -> dict[str, str]:
    """The code of a module that is not of this package; nothing for one that is."""
    file = getattr(sys.modules[module], "__file__", None)
    return digest_of_file(Path(file)) if file and not module.startswith("damnatio.") else {}
