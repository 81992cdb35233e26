"""Print the hashes of every package that the first environment of `make` installs, torch apart: requirements.lock.

usage: python .ci/lock.py > requirements.lock

It runs in that environment. The versions are those of constraints.txt; the hashes are those that the index (PyPI, or
PIP_INDEX_URL) gives for the wheels of each version, whatever the Python and the system. torch has other builds and
other hashes on every index, so it is installed by its version.
"""

import os
import re
import sys
import tomllib
import urllib.request
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[1]
ROOTS = ("damnatio[dev]", "editables")
"""what is asked for; hatchling builds an editable package by `editables`"""
APART = ("damnatio", "torch")
PYTHONS = ("py3", "py2.py3", "cp311", "cp312", "cp313", "cp314")
SYSTEMS = re.compile(r"any|manylinux.*(x86_64|aarch64)|macosx.*|win_(amd64|arm64)")
LINK = re.compile(r'href="[^"]*?([^/"#]+)#sha256=([0-9a-f]{64})"')


def pinned() -> dict[str, str]:
    """The version of each package of constraints.txt, by its canonical name."""
    lines = (ROOT / "constraints.txt").read_text().split("\n")
    return {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in lines if "==" in line}


def closure() -> list[str]:
    """The canonical names of all packages that are needed on this machine."""
    found: set[tuple[str, str]] = set()
    todo = [(Requirement(root), "") for root in ROOTS]
    while todo:
        wanted, extra = todo.pop()
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(wanted.name)
        for chosen in ("", *wanted.extras):
            if (name, chosen) not in found:
                found.add((name, chosen))
                todo += [(Requirement(line), chosen) for line in _needs(name)]
    return sorted({name for name, _ in found}.difference(APART) & set(pinned()))


def _needs(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []


def markers() -> dict[str, str]:
    """The systems for which pyproject.toml names a package at all."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for lines in project["optional-dependencies"].values() for line in lines)]
    wanted = [Requirement(line) for line in lines]
    return {canonicalize_name(one.name): f" ; {one.marker}" for one in wanted if one.marker}


def hashes(name: str, version: str) -> list[str]:
    """The SHA-256 of each wheel that one of the known Pythons and systems can install."""
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
    with urllib.request.urlopen(f"{index}/{name}/") as page:
        return sorted(digest for file, digest in LINK.findall(page.read().decode()) if _fits(file, version))


def _fits(file: str, version: str) -> bool:
    try:
        _, found, _, tags = parse_wheel_filename(urllib.request.unquote(file))
    except InvalidWheelFilename:
        return False
    return str(found) == version and any(
        (tag.interpreter in PYTHONS or tag.abi == "abi3") and tag.abi[-1:] != "t" and SYSTEMS.fullmatch(tag.platform)
        for tag in tags
    )


def main() -> None:
    versions, systems = pinned(), markers()
    print("# `make lock` wrote this: the wheels that `make` installs, by version and SHA-256. torch is not among them.")
    for name in closure():
        found = hashes(name, versions[name])
        if not found:
            sys.exit(f"The index has no wheel of {name} {versions[name]}: pin another version in constraints.txt.")
        words = " \\\n    ".join(
            [f"{name}=={versions[name]}{systems.get(name, '')}", *(f"--hash=sha256:{one}" for one in found)]
        )
        print(words)


if __name__ == "__main__":
    main()
