"""The manifest of a stage's output: it names the hash of each of its files, and a file is checked when it is read.

`workspace.py` writes manifests. This module reads them, for every module that opens a file of a finished output.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from damnatio.support.errors import DamnatioError
from damnatio.support.files import digest_of

MANIFEST = "stage.json"
CHECKPOINT = "checkpoint.safetensors"
"""the file from which an unfinished training goes on: never part of an output, and deleted when the output is whole"""
PIECES = "pieces"
"""the folder of what an unfinished stage has done so far (`support/pieces.py`): never part of an output, and deleted
when the output is whole"""
CHECKPOINTS = (CHECKPOINT, "checkpoint-before.safetensors")
"""the present checkpoint and the one before it, which is used if the present one is damaged"""
LOG = ".jsonl"
"""the ending of files that say how a result was reached: their hashes are in the manifest, but not in the hash of the
output's content"""
CACHES = ("pixels.npy",)
"""files that may be deleted or never written, because they can be made again: not in the hash of the content"""

COSTS = ("cost.md", "cost.csv", "cost.tex")
"""files of a report that say how long its models took: not in the hash of the content, since equal runs differ there"""


def checked(path: Path) -> Path:
    """The path of a file that is about to be read. A file that a manifest beside it names must be as its stage wrote
    it, else it is refused. A file that no manifest names is returned unchecked."""
    manifest_file = path.parent / MANIFEST
    try:
        manifest = json.loads(manifest_file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (ValueError, RecursionError):
        raise _refused(f"{manifest_file} is damaged, so {path.name} cannot be checked", path) from None
    if not (isinstance(manifest, dict) and {"key", "stage"} <= manifest.keys()):
        return path  # a file of that name by another program
    files = _files_of(manifest)
    if files is None:
        raise _refused(f"{path} cannot be checked: {manifest_file} has no hashes, as in older versions", path)
    if path.name not in files:
        return path
    if not path.is_file():
        raise _refused(f"{path} is gone", path)
    wanted = files[path.name]
    if path.stat().st_size != wanted["bytes"] or digest_of(path) != wanted["sha256"]:
        raise _refused(f"{path} is not what its stage wrote: it was damaged, edited or swapped", path)
    return path


def _refused(fault: str, path: Path) -> DamnatioError:
    return DamnatioError(
        f"{fault}. Delete the folder {path.parent} and run the recipe again: the run makes it anew. (A copy of the "
        f"folder can be used as it is once its {MANIFEST} is deleted.)"
    )


def _files_of(manifest: Any) -> dict[str, dict[str, Any]] | None:
    """The size and hash of each file of an output; None if the manifest does not have them."""
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        return None
    sound = all(isinstance(file, dict) and {"sha256", "bytes"} <= file.keys() for file in files.values())
    return files if sound else None


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of the output in a folder; empty if the folder holds no whole output."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return {} if _files_of(manifest) is None or not isinstance(manifest.get("key"), str) else manifest


def section_of(manifest: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A section of a manifest. A file on disk may hold anything, so a section that is no mapping is empty."""
    section = manifest.get(name)
    return section if isinstance(section, dict) else {}
