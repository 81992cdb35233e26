"""The manifest of a stage's output: the hash of each of its files, checked when a file is read."""

import json
from pathlib import Path
from typing import Any

from damnatio.support.errors import DamnatioError
from damnatio.support.files import digest_of

MANIFEST, CHECKPOINT, LOCK = "stage.json", "checkpoint.safetensors", ".lock"


LOG = ".jsonl"
"""the ending of files that say how a result was reached: hashed, and no part of an output's content"""
CACHES = ("pixels.npy",)
"""files that may be deleted or never written, as their content can be had again: no part of an output's content"""


def checked(path: Path) -> Path:
    """The path, of a file to be read: one that belongs to the output of a stage must be as the stage wrote it. Files
    that no manifest lies beside, and files beside those of a stage, are nobody's and pass."""
    manifest_file = path.parent / MANIFEST
    try:
        manifest = json.loads(manifest_file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (ValueError, RecursionError):
        raise _refused(f"{manifest_file} is damaged, and it has to vouch for {path.name}", path) from None
    if not (isinstance(manifest, dict) and {"key", "stage"} <= manifest.keys()):
        return path  # of another program
    files = _files_of(manifest)
    if files is None:
        raise _refused(f"Nothing vouches for {path}: {manifest_file} has no hashes, as in older versions", path)
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
        f"{fault}. Delete the folder {path.parent} and run the recipe again: it will be made anew. (A copy of the "
        f"folder can be used as it is once its {MANIFEST} is deleted.)"
    )


def _files_of(manifest: Any) -> dict[str, dict[str, Any]] | None:
    """The size and hash of each file of an output; None where a manifest does not have them."""
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        return None
    sound = all(isinstance(file, dict) and {"sha256", "bytes"} <= file.keys() for file in files.values())
    return files if sound else None


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of the output in a folder; empty where there is no whole output."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return {} if _files_of(manifest) is None else manifest
