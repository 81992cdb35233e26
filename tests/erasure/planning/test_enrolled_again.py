"""The person enrolled anew in each kind of gallery, by its own engine: found under f*, and not under f."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from damnatio.galleries import STORES
from damnatio.galleries.opening import open_store
from damnatio.methods.strangers import mean_direction
from tests.erasure.cases import World, embedded
from tests.erasure.world import pattern, photograph

MEMBERS, LEVEL = 40, 0.45


@pytest.fixture(scope="module")
def vectors(kept: tuple[World, Path]) -> dict[str, np.ndarray[tuple[int, int], np.dtype[np.float32]]]:
    """Unit vectors of members, and of the person's photographs under both models."""
    world = kept[0]
    new = [photograph(pattern(0), 40_000 + i) for i in range(8)]
    others = [photograph(pattern(600 + i), 50_000 + i) for i in range(MEMBERS)]
    found = {
        "members": embedded(world.model, others),
        "old": embedded(world.model, new),
        "new": embedded(world.out / "model-GS.safetensors", new),
    }
    return {name: rows / np.linalg.norm(rows, axis=1, keepdims=True) for name, rows in found.items()}


@pytest.fixture(params=STORES.names())
def address(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    vectors: dict[str, np.ndarray[tuple[int, int], np.dtype[np.float32]]],
) -> Iterator[str]:
    folder = tmp_path / "store"
    folder.mkdir()
    names = [f"member {i:02d}" for i in range(MEMBERS)]
    module = importlib.import_module(f"tests.galleries.worlds.{request.param}")
    with module.world(folder, names, vectors["members"]) as found:
        yield found


@pytest.mark.parametrize(
    ("enrolled", "searched", "least", "most"), [("old", "old", 4, 4), ("new", "new", 0, 0), ("old", "new", 0, 0)]
)
def test_a_new_enrolment_is_found_under_the_old_model_only(
    address: str,
    vectors: dict[str, np.ndarray[tuple[int, int], np.dtype[np.float32]]],
    enrolled: str,
    searched: str,
    least: int,
    most: int,
) -> None:
    with open_store(address, write=True) as store:
        if not any(place.searched for place in store.places()):
            pytest.skip("it has no vectors")
        template = mean_direction(vectors[enrolled][:4].astype(np.float64))[None].astype(np.float32)
        (key,) = store.add("again", template)
        first = [hits[0] for hits in store.search(vectors[searched][4:], 1)]
        found = sum(hit.key == key and hit.score >= LEVEL for hit in first)
    assert least <= found <= most
