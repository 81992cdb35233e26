"""Several sources as one: each part's identities stand under its name, `people/Ann`, `retain/Bob`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from damnatio.errors import DamnatioError
from damnatio.faces import SOURCES, detect
from damnatio.faces.base import FaceSource, UnreadableError
from damnatio.faces.decoding import EncodedSettings
from damnatio.tables import Table

PartName = Annotated[str, Field(pattern=r"^[^/]+$")]
"""what stands before the first slash of an identity's name"""


def parts_of(names: NDArray[np.object_]) -> NDArray[np.str_]:
    """The part that each identity or image of a collection stands under."""
    return np.array([str(name).split("/", 1)[0] for name in names], dtype=np.str_)


@SOURCES.register("collection")
class Collection(FaceSource):
    """Other sources side by side, by their paths. Whoever is in an earlier part is left out of the later ones."""

    class Settings(EncodedSettings):
        source: Literal["collection"]
        parts: dict[PartName, Path] = Field(
            min_length=1, description="a name for each path; earlier ones have precedence"
        )

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self._parts: dict[str, FaceSource] = {}
        for name, path in settings.parts.items():
            found = detect(path, size=settings.size, resize=settings.resize)
            self._parts[name] = SOURCES.get(found.source)(found)

    def fingerprint(self) -> Any:
        return {name: part.fingerprint() for name, part in self._parts.items()}

    def index(self) -> Table:
        tables: list[Table] = []
        known = dict[str, str]()
        for name, part in self._parts.items():
            part.skipped.clear()
            table = part.index()
            for image, identity, reason in part.skipped:
                self.skip(f"{name}/{image}", reason, f"{name}/{identity}")
            twice = np.array([identity in known for identity in table["identity"]], bool)
            for image, identity in zip(table["image"][twice], table["identity"][twice], strict=True):
                self.skip(f"{name}/{image}", f"{identity} is in {known[identity]}", f"{name}/{identity}")
            if twice.all():
                raise DamnatioError(f"Everybody in {self.settings.parts[name]} is in an earlier part as well.")
            table = table.where(~twice)
            known |= dict.fromkeys(table["identity"].tolist(), name)
            front = {c: [f"{name}/{value}" for value in table[c]] for c in ("image", "identity")}
            tables.append(table.with_columns(**front))
        columns = dict.fromkeys(column for table in tables for column in table.columns)
        whole = Table.joined([_filled(table, tables, list(columns)) for table in tables])
        return whole.sorted_by("identity", "image")

    def read(self, rows: Table) -> list[NDArray[np.uint8] | UnreadableError]:
        names = parts_of(rows["image"])
        own = rows.with_columns(**{c: [str(name).split("/", 1)[1] for name in rows[c]] for c in ("image", "identity")})
        images: list[NDArray[np.uint8] | UnreadableError] = [UnreadableError("nowhere")] * len(rows)
        for name, part in self._parts.items():
            places = np.flatnonzero(names == name)
            if len(places):
                for place, image in zip(places, part.read(own.where(places)), strict=True):
                    images[place] = image
        return images


def _filled(table: Table, tables: list[Table], columns: list[str]) -> Table:
    """The table with every column that any of the parts has; what it lacks is zero or empty."""
    filled = {}
    for name in columns:
        if name in table.columns:
            filled[name] = table[name]
        else:
            kind = next(other[name].dtype for other in tables if name in other.columns)
            filled[name] = np.full(len(table), "", object) if kind.kind == "O" else np.zeros(len(table), kind)
    return Table(filled)
