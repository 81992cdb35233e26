"""A small graph of outputs that take no time to make: a trunk of two stages, two branches, and what joins them.

a ── b ──┬── left  ──┬── join
         └── right ──┘
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from damnatio.running.walking import Walk
from damnatio.workspace import Output

if TYPE_CHECKING:
    from damnatio.running.graph import Graph

Builds = Mapping[str, Callable[[Path], None]]


def write(text: str) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        (folder / "data.txt").write_text(text)

    return build


def fail_with(error: Exception) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        raise error

    return build


def ask(walk: Walk, builds: Builds | None = None) -> dict[str, Output]:
    """Ask for every stage, in order. `builds` replaces how some of them are made."""
    chosen = {name: write(f"made of {name}") for name in ("a", "b", "left", "right", "join", "check")} | dict(
        builds or {}
    )
    a = walk.stage("1-faces", "a", {"size": 1}, {}, chosen["a"], {"code": "1"})
    b = walk.stage("4-train", "b", {"train": {"epochs": 4, "batch": 10}}, {"faces": a}, chosen["b"])
    left = walk.stage("5-forget", "left", {}, {"original": b}, chosen["left"])
    right = walk.stage("5-forget", "right", {}, {"original": b}, chosen["right"])
    join = walk.stage("7-evaluate", "join", {}, {"left": left, "right": right}, chosen["join"])
    check = walk.stage("7-evaluate", "check", {}, {"left": left, "right": right}, chosen["check"])
    return {"a": a, "b": b, "left": left, "right": right, "join": join, "check": check}


def small_graph(folder: Path) -> "Graph":
    from damnatio.running.graph import Graph  # not at the top: it imports torch

    walk = Walk(folder, lambda line: None, chosen=())
    ask(walk)
    return Graph(walk.nodes, {key: [""] for key in walk.nodes}, "small")
