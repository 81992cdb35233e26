"""Several sources as one. Each is a pool with a name; the column `pool` says which pool an image comes from.

An identity keeps its own name, and that name is in one pool only: the images of an identity that an earlier pool has
are skipped. So a name is one person throughout the table. Where names of a pool say nothing about other pools, such as
numbers, the pool is set `apart`: its identities are called `people/Ann`. The name of an image begins with its pool
(`people/Ann/1.jpg`), because two pools may hold files of the same name.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from damnatio.faces import SOURCES, detect
from damnatio.faces.base import POOL, FaceSource, UnreadableError
from damnatio.faces.decoding import EncodedSettings
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table

PoolName = Annotated[str, Field(pattern=r"^[^/]+$")]
"""without a slash, so that no two images get the same name"""


@SOURCES.register("collection")
class Collection(FaceSource):
    """Other sources side by side, by their paths. An identity of an earlier pool is left out of the later ones."""

    class Settings(EncodedSettings):
        source: Literal["collection"]
        pools: dict[PoolName, Path] = Field(
            min_length=1, description="the path of each pool by its name; earlier pools have precedence"
        )
        apart: list[PoolName] | None = Field(
            None, description="pools whose names are their own: `Ann` there and in another pool are two people"
        )

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self._pools: dict[str, FaceSource] = {}
        for pool, path in settings.pools.items():
            found = detect(path, size=settings.size, resize=settings.resize)
            self._pools[pool] = SOURCES.get(found.source)(found)

    def fingerprint(self) -> Any:
        return {pool: source.fingerprint() for pool, source in self._pools.items()}

    def index(self) -> Table:
        """Sorted by pool, then by identity, then by image."""
        tables: list[Table] = []
        pool_of: dict[str, str] = {}
        for pool, source in self._pools.items():
            source.skipped.clear()
            table = source.index()
            before = f"{pool}/" if pool in (self.settings.apart or []) else ""
            for image, identity, reason in source.skipped:
                self.skip(f"{pool}/{image}", reason, f"{before}{identity}" if identity else "")
            if before:
                table = table.with_columns(identity=[f"{before}{identity}" for identity in table["identity"]])
            twice = np.array([identity in pool_of for identity in table["identity"]], bool)
            for image, identity in zip(table["image"][twice], table["identity"][twice], strict=True):
                self.skip(f"{pool}/{image}", f"{identity} is in {pool_of[identity]}", identity)
            if twice.all():
                raise DamnatioError(
                    f"Everybody in {self.settings.pools[pool]} is in an earlier pool as well: bring other people."
                )
            table = table.where(~twice)
            pool_of |= dict.fromkeys(table["identity"].tolist(), pool)
            names = [f"{pool}/{image}" for image in table["image"]]
            tables.append(table.with_columns(image=names, **{POOL: [pool] * len(table)}))
        columns = dict.fromkeys(column for table in tables for column in table.columns)
        whole = Table.joined([_filled(table, tables, list(columns)) for table in tables])
        return whole.sorted_by(POOL, "identity", "image")

    def read(self, rows: Table) -> list[NDArray[np.uint8] | UnreadableError]:
        images: list[NDArray[np.uint8] | UnreadableError] = [UnreadableError("in no pool")] * len(rows)
        for pool, source in self._pools.items():
            places = np.flatnonzero(rows[POOL] == pool)
            if len(places):
                own = rows.where(places)
                own = own.with_columns(image=[name.removeprefix(f"{pool}/") for name in own["image"]])
                for place, image in zip(places, source.read(own), strict=True):
                    images[place] = image
        return images


def _filled(table: Table, tables: list[Table], columns: list[str]) -> Table:
    """The table with every column that any of the tables has; a column that it lacks is zero or empty."""
    filled = {}
    for name in columns:
        if name in table.columns:
            filled[name] = table[name]
        else:
            kind = next(other[name].dtype for other in tables if name in other.columns)
            filled[name] = np.full(len(table), "", object) if kind.kind == "O" else np.zeros(len(table), kind)
    return Table(filled)
