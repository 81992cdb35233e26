"""The readers of the project, one adapter each: valid files to start from, and how the program reads one."""

from fuzz.readers import cases, faces, galleries, models, runs
from fuzz.readers.base import Reader

READERS: dict[str, Reader] = {
    reader.name: reader for module in (cases, faces, galleries, models, runs) for reader in module.READERS
}

__all__ = ["READERS", "Reader"]
