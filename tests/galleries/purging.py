"""Ann purged from a store, in this process or in one that is killed on the way."""

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from damnatio.galleries.base import Store
from damnatio.galleries.items import Key, Sought
from damnatio.galleries.opening import open_store
from damnatio.galleries.scanning.needles import Needles
from damnatio.galleries.scanning.scan import needles_of, scan_store
from tests.galleries.people import ANN, rows

NAMES, VECTORS = rows()


@contextmanager
def world(scheme: str, folder: Path) -> Iterator[str]:
    folder.mkdir(exist_ok=True)
    with importlib.import_module(f"tests.galleries.worlds.{scheme}").world(folder, NAMES, VECTORS) as address:
        yield address


def ann(store: Store) -> tuple[list[Key], Needles]:
    keys = [item.key for item in store.find(Sought(names=[ANN])).items]
    return keys, needles_of(store, keys)


def verdicts(store: Store, person: Needles, keys: list[Key]) -> dict[str, str]:
    """By class of files; classes without files are left out."""
    return {one.name: one.verdict for one in scan_store(store, person, keys).classes if one.bytes}


def purged(store: Store, keys: list[Key]) -> None:
    store.delete(keys)
    for step in store.steps():
        step.run()


def killed_after(address: str, keys: list[Key], steps: int) -> None:
    """A process that deletes, runs so many steps, and is killed."""
    pairs = [tuple(key) for key in keys]
    program = f"from tests.galleries.purging import stopped; stopped({address!r}, {pairs!r}, {steps})"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def stopped(address: str, keys: list[tuple[str, str]], steps: int) -> None:
    store = open_store(address, write=True)
    store.delete([Key(*key) for key in keys])
    for step in store.steps()[:steps]:
        step.run()
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def held_elsewhere(address: str) -> Iterator[None]:
    """Another process has the store open."""
    program = f"from tests.galleries.purging import hold; hold({address!r})"
    other = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        if not other.stdout.readline():
            pytest.fail("the other process could not open the store")
        yield
    finally:
        other.kill()
        other.communicate()


def hold(address: str) -> None:
    with open_store(address, write=True):
        print("open", flush=True)
        sys.stdin.read()
