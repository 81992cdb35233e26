"""A table of faces in a Postgres database, for tests."""

from typing import Any

import numpy as np
import pytest

from damnatio.galleries.base import Store
from damnatio.galleries.items import Key, Sought
from tests.galleries.left import people

psycopg = pytest.importorskip("psycopg")
NAMES, VECTORS = people(12, 5)
WHO = "person 07"
IS_WHO = np.array([name == WHO for name in NAMES])
MINE = VECTORS[IS_WHO]
OPTIONS = "table=face&vector=embedding&name=subject"


def run(address: str, text: str, rows: list[tuple[Any, ...]] | None = None) -> list[tuple[Any, ...]]:
    with psycopg.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        if rows is not None:
            cursor.executemany(text, rows)
            return []
        cursor.execute(text)
        return list(cursor.fetchall()) if cursor.description else []


def faces(address: str, kind: str = "vector(512)", values: list[Any] | None = None) -> str:
    """A table of faces; returns its address."""
    run(address, f"CREATE TABLE face (id bigserial PRIMARY KEY, subject text, embedding {kind})")
    given = values or [str(vector.tolist()) for vector in VECTORS]
    text = f"INSERT INTO face (subject, embedding) VALUES (%s, %s::{kind})"
    run(address, text, list(zip(NAMES, given, strict=True)))
    return f"{address}&{OPTIONS}"


def keys_of(store: Store, name: str = WHO) -> list[Key]:
    return [item.key for item in store.find(Sought(names=[name])).items]


def purge(store: Store, keys: list[Key]) -> None:
    store.delete(keys)
    for step in store.steps():
        step.run()
