"""The network of the world of block patterns is registered for these tests alone."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from damnatio.backbones import BACKBONES
from tests.erasure.cases import World, new_world, planned, restored
from tests.erasure.world import NAME, blocks


@pytest.fixture(autouse=True, scope="package")
def network() -> Iterator[None]:
    """Contract tests run over every registered backbone, so what a test registers must not stay."""
    BACKBONES.names()
    BACKBONES.register(NAME)(blocks)
    yield
    del BACKBONES._parts[NAME]


@pytest.fixture(scope="package")
def kept(tmp_path_factory: pytest.TempPathFactory, network: None) -> tuple[World, Path]:
    """A world with a plan, made once, and a copy of it: an address in a plan is of one place."""
    root = tmp_path_factory.mktemp("case")
    world = planned(new_world(root / "world"))
    shutil.copytree(world.root, root / "kept")
    return world, root / "kept"


@pytest.fixture
def world(kept: tuple[World, Path], monkeypatch: pytest.MonkeyPatch) -> World:
    """The world as it was when the plan was made. No browser prints pages: that takes seconds."""
    monkeypatch.setattr("damnatio.erasure.proving.pages.BROWSERS", ())
    monkeypatch.setenv("DAMNATIO_KEY", str(kept[0].key))
    restored(*kept)
    return kept[0]
