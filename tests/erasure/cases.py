"""A case to carry out: a model, a person, a gallery with the person under two names and a look-alike, and a plan."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from damnatio import erase
from damnatio.erasure.proving.keys import make_pair
from damnatio.erasure.request import Case
from damnatio.models.importing import import_model
from damnatio.recipe.files import model_settings
from tests.erasure.world import pattern, photograph, write_model, write_people

PERSON, ALIAS, TWIN, MEMBERS = "person000", "0815", "twin", 60
OWN = 3
"""templates of the person under their own name"""


def embedded(file: Path, images: list[NDArray[np.uint8]]) -> NDArray[np.float32]:
    network, card = import_model(model_settings(file))
    with torch.inference_mode():
        return np.asarray(network(card.prepare(np.stack(images), torch.device("cpu"))).numpy())


@dataclass(frozen=True)
class World:
    root: Path

    @property
    def model(self) -> Path:
        return self.root / "model"

    @property
    def people(self) -> Path:
        return self.root / "people"

    @property
    def gallery(self) -> Path:
        return self.root / "gallery.npz"

    @property
    def key(self) -> Path:
        return self.root / "keys" / "key.pem"

    @property
    def out(self) -> Path:
        return self.root / "out"

    @property
    def plan(self) -> Path:
        return self.out / "plan.json"

    @property
    def record(self) -> Path:
        return self.out / "record.json"

    def names(self) -> list[str]:
        with np.load(self.gallery) as file:
            return [str(name) for name in file["names"]]

    def state(self) -> dict[str, bytes]:
        """Every file below the root, by its name."""
        files = (path for path in sorted(self.root.rglob("*")) if path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in files}


def write_gallery(world: World) -> None:
    """MEMBERS strangers, the person under two names, and somebody who looks like the person (cosine about 0.3)."""
    twin = 0.5 * pattern(0) + np.sqrt(1 - 0.25) * pattern(999)
    images = [photograph(pattern(300 + i), 70_000 + i) for i in range(MEMBERS)]
    images += [photograph(pattern(0), 90_000 + i) for i in range(OWN)]
    images += [photograph(pattern(0), 91_000), photograph(twin, 92_000), photograph(twin, 92_001)]
    names = [f"member{i}" for i in range(MEMBERS)] + [PERSON] * OWN + [ALIAS, TWIN, TWIN]
    np.savez(world.gallery, embeddings=embedded(world.model, images), names=np.array(names))


def new_world(root: Path) -> World:
    """Everything but the plan."""
    world = World(root)
    write_model(world.model)
    write_people(world.people, [0])
    write_gallery(world)
    make_pair(world.key)
    return world


def planned(world: World, **more: object) -> World:
    case = Case(id="2026-17", key=world.key, remains=["nightly backup, until 2026-12-31"], recipients=["Airport"])
    erase(
        world.model,
        world.people,
        out=world.out,
        gallery=world.gallery,
        case=case,
        overrides=["threads=1"],
        **{"same": [ALIAS], "not_same": ["all-others"], **more},  # type: ignore[arg-type]
    )
    return world


def restored(world: World, kept: Path) -> None:
    """Put the world back to what was kept."""
    shutil.rmtree(world.root)
    shutil.copytree(kept, world.root)
