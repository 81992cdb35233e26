"""Print constraints that pin each dependency of pyproject.toml to the oldest version that it allows.

usage: python .ci/lowest.py [NAME==VERSION ...] > constraints.txt

torch is large and its old builds are not on every index: it stays the pinned one of constraints.txt unless named, and
so does onnxscript, of which each torch needs a version as new as itself. Tools that no test imports stay free.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FREE = ("ruff", "mypy")
TOGETHER = ("torch", "onnxscript")
BOUND = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*>=\s*([0-9][^,;\s]*)")


def lowest() -> dict[str, str]:
    """Name and lower bound of every dependency that has one, those of the extras `onnx` and `dev` included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    bounds = map(BOUND.match, [*project["dependencies"], *extras["onnx"], *extras["dev"]])
    return {bound[1].lower(): bound[2] for bound in bounds if bound}


def main(chosen: list[str]) -> None:
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)
    named = dict(word.split("==") for word in chosen)
    kept = {} if "torch" in named else {name: pinned[name] for name in TOGETHER}
    versions = {**lowest(), **kept, **named}
    for name, version in sorted(versions.items()):
        if name not in FREE:
            print(f"{name}=={version}")


if __name__ == "__main__":
    main(sys.argv[1:])
