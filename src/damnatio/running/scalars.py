"""The logs of a run's trainings for TensorBoard, in `tensorboard/` of the run's folder: `tensorboard --logdir RUN`.

The logs are followed while they grow, by the process that shows the run, so the training knows nothing of it. A call
writes the whole logs anew: so a run that was killed and goes on has each step once.
"""

import shutil
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from damnatio.running.graph import Graph
from damnatio.running.status import NO_LOSS, line_of, trains
from damnatio.support.errors import DamnatioError
from damnatio.training.loop import METRICS
from damnatio.training.similarity import FILE as SIMILARITY
from damnatio.workspace import Output

FOLDER = "tensorboard"
POLL = 5.0
"""seconds between two looks at the logs"""


def tags_of(log: str, line: Mapping[str, Any]) -> dict[str, float]:
    """The scalars of a line of a log."""
    if log == SIMILARITY:
        return {f"similarity/{name}": float(value) for name, value in line.items() if name != "step"}
    losses = {f"loss/{name}": float(value) for name, value in line.items() if name not in NO_LOSS}
    return {**losses, **{f"training/{name}": float(line[name]) for name in ("lr", "images_per_second") if name in line}}


class Scalars:
    """Follows the trainings of a run, or those of some nodes, as a context."""

    def __init__(self, folder: Path, graph: Graph, chosen: Collection[str] | None = None) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise DamnatioError("TensorBoard's files need tensorboard: pip install 'damnatio[tensorboard]'.") from None
        self._new = SummaryWriter
        self._folder, self._graph = folder, graph
        self._nodes = [key for key, node in graph.nodes.items() if trains(node) and (chosen is None or key in chosen)]
        self._done: dict[str, Output] = {}
        self._writers: dict[str, Any] = {}
        self._read: dict[Path, int] = {}
        """bytes of each log that are written, by its place when it is finished"""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        self.write()
        for writer in self._writers.values():
            writer.close()

    def _follow(self) -> None:
        while not self._ended.wait(POLL):
            self.write()

    def write(self) -> None:
        """Write what the logs have got since the last time."""
        self._done = self._graph.done(self._folder, self._done)
        for key in self._nodes:
            node = self._graph.nodes[key]
            stage = self._folder / node.stage
            if key in self._done:
                self._copy(node.stage, self._done[key].path, self._done[key].path)
                continue
            for partial in stage.glob(f".partial-{node.name}-????????"):
                self._copy(node.stage, stage / partial.name.removeprefix(".partial-"), partial)

    def _copy(self, stage: str, final: Path, present: Path) -> None:
        for log in (METRICS, SIMILARITY):
            place, start = final / log, self._read.get(final / log, 0)
            with suppress(OSError):
                with (present / log).open("rb") as file:
                    file.seek(start)
                    content = file.read()
                whole = content[: content.rfind(b"\n") + 1]
                self._read[place] = start + len(whole)
                for line in filter(None, map(line_of, whole.splitlines())):
                    self._write(f"{stage}.{final.name}", log, line)
        if f"{stage}.{final.name}" in self._writers:
            self._writers[f"{stage}.{final.name}"].flush()

    def _write(self, name: str, log: str, line: Mapping[str, Any]) -> None:
        if name not in self._writers:
            shutil.rmtree(self._folder / FOLDER / name, ignore_errors=True)
            self._writers[name] = self._new(str(self._folder / FOLDER / name))
        for tag, value in tags_of(log, line).items():
            self._writers[name].add_scalar(tag, value, int(line["step"]))
