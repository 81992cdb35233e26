"""The names of a gallery that holds only vectors, in a file beside it.

names.json   ["Ann", "Bob"]            by position
             {"0": "Ann", "7": "Bob"}  by id
names.txt    one name per line         by position
names.npy    an array of text          by position
names.pkl    a pickled list or dict    as in JSON
"""

import io
import json
import pickle
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from damnatio.galleries.npy_streams import texts, with_characters
from damnatio.galleries.unpickling import read_pickle
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular
from damnatio.support.unpickling import UnpicklingError

KINDS = (".json", ".txt", ".npy", ".pkl", ".pickle")


class NameFile:
    """Names by position or by id, and the file with some of them gone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        need_regular(path, "The names")
        if path.suffix.lower() not in KINDS:
            raise DamnatioError(f"The names {path} are in no known format: {', '.join(KINDS)} are read.")
        try:
            self._content = self._read(path.read_bytes())
        except DamnatioError:
            raise
        except (OSError, ValueError, EOFError, RecursionError, UnpicklingError) as error:
            said = " ".join(str(error).split())[:120]
            raise DamnatioError(f"The names {path} cannot be read ({said}).") from error

    def _read(self, content: bytes) -> Any:
        suffix = self.path.suffix.lower()
        if suffix == ".npy":
            array = np.load(io.BytesIO(content), allow_pickle=False)
            if array.ndim != 1:
                raise ValueError("a list of names is expected")
            return texts(with_characters(array))
        if suffix == ".txt":
            return content.decode().splitlines()
        found = json.loads(content) if suffix == ".json" else read_pickle(content)
        named = isinstance(found, dict) and all(str(key).lstrip("-").isdigit() for key in found)
        if not isinstance(found, list | tuple) and not named:
            raise ValueError("a list of names, or names by id, are expected")
        return found if named else list(found)

    @cached_property
    def _known(self) -> dict[int, str]:
        return {int(key): _text(name) for key, name in self._content.items()}

    @property
    def by_id(self) -> bool:
        """Whether the file names ids; else it names positions."""
        return isinstance(self._content, dict)

    def __len__(self) -> int:
        return len(self._content)

    def names(self, numbers: Sequence[int]) -> list[str]:
        """The names of these ids or positions; "" where there is none."""
        if self.by_id:
            return [self._known.get(number, "") for number in numbers]
        count = len(self._content)
        return [_text(self._content[number]) if 0 <= number < count else "" for number in numbers]

    def without(self, gone: set[int], moved: bool) -> bytes:
        """The file without the names of these ids or positions. `moved`: what follows a position moves up; else its
        place stays, and is empty."""
        kept: Any
        if self.by_id and not moved:
            kept = {key: name for key, name in self._content.items() if int(key) not in gone}
        elif self.by_id:
            order = sorted((int(key), key, name) for key, name in self._content.items() if int(key) not in gone)
            shifts = np.searchsorted(sorted(gone), [number for number, _, _ in order])
            kept = {type(key)(number - int(by)): name for (number, key, name), by in zip(order, shifts, strict=True)}
        elif moved:
            kept = [name for place, name in enumerate(self._content) if place not in gone]
        else:
            kept = ["" if place in gone else name for place, name in enumerate(self._content)]
        return self._written(kept)

    def with_more(self, numbers: Sequence[int], name: str) -> bytes:
        """The file with a name for these ids or positions too."""
        if self.by_id:
            kind = type(next(iter(self._content), "0"))
            return self._written({**self._content, **{kind(number): name for number in numbers}})
        content = list(self._content)
        content += [""] * (max(numbers) + 1 - len(content))
        for number in numbers:
            content[number] = name
        return self._written(content)

    def _written(self, content: Any) -> bytes:
        suffix = self.path.suffix.lower()
        if suffix == ".npy":
            file = io.BytesIO()
            np.save(file, np.array(content, dtype=str), allow_pickle=False)
            return file.getvalue()
        if suffix == ".txt":
            return "".join(f"{name}\n" for name in content).encode()
        return json.dumps(content, ensure_ascii=False).encode() if suffix == ".json" else pickle.dumps(content)


def _text(name: Any) -> str:
    if isinstance(name, dict):
        name = name.get("name", "")
    return "" if name is None else str(name)
