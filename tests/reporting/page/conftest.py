"""One evaluated run and its page, for all tests here."""

from pathlib import Path

import pytest

from tests.reporting.page.world import World, a_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return a_world(tmp_path_factory.mktemp("evaluations"))


@pytest.fixture(scope="session")
def page(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of its page."""
    return world.write_page(tmp_path_factory.mktemp("page"))
