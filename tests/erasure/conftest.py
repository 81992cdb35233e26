"""The network of the world of block patterns is registered for these tests alone."""

from collections.abc import Iterator

import pytest

from damnatio.backbones import BACKBONES
from tests.erasure.world import NAME, blocks


@pytest.fixture(autouse=True, scope="package")
def network() -> Iterator[None]:
    """Contract tests run over every registered backbone, so what a test registers must not stay."""
    BACKBONES.names()
    BACKBONES.register(NAME)(blocks)
    yield
    del BACKBONES._parts[NAME]
