"""A walk through the pipeline: it makes what was chosen, looks for the rest, and notes which stage needs which.

`Walk` stands where the pipeline has its workspace. The pipeline asks it for one stage after the other, so the order of
stages and what each needs are written in one place, the pipeline.

A stage that fails stops only what needs it. The error is kept, the walk goes on, and `conclude` raises it at the end.
"""

import errno
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damnatio.running.failures import FOLDER, LAUNCH, all_of, clear, failures, last_line, record
from damnatio.running.launching import AGAIN
from damnatio.support import processes
from damnatio.support.errors import DamnatioError
from damnatio.support.files import content_key
from damnatio.support.progress import prefixed
from damnatio.training.stopping import Stopped, stop_requested
from damnatio.workspace import LOCKS, Absent, Output, Wanted, Workspace

if TYPE_CHECKING:
    from damnatio.running.graph import Graph

GRAPH = ".graph.json"
LEFT = {FOLDER, GRAPH}
"""status files; deleted if the run produced no output"""


@dataclass(frozen=True)
class Node:
    """One output of a run. Its `id` is known before anything is made: a hash of the settings, the code and what it
    needs. `needs` are ids by the name of the input."""

    id: str
    stage: str
    name: str
    settings: Mapping[str, Any]
    code: Mapping[str, str]
    needs: Mapping[str, str]

    @property
    def title(self) -> str:
        return f"{self.stage}/{self.name}" if self.name else self.stage


def node_of(
    stage: str, name: str, settings: Mapping[str, Any], code: Mapping[str, str], needs: Mapping[str, str]
) -> Node:
    content = {"stage": stage, "name": name, "settings": settings, "code": code, "needs": needs}
    return Node(content_key(content), stage, name, dict(settings), dict(code), dict(needs))


class GroupEndedError(DamnatioError):
    """A build that several processes share failed in one of them. The others cannot go on: all must start anew."""

    code = AGAIN


class Walk(Workspace):
    """The folder of a run. Of the nodes that are asked for, the chosen ones are made; all, if none are named."""

    def __init__(self, folder: Path, say: Callable[[str], None] = print, chosen: Collection[str] | None = None) -> None:
        super().__init__(folder, say)
        self.chosen = chosen
        self.nodes: dict[str, Node] = {}
        self.errors: dict[str, Exception] = {}
        self.graph: Graph | None = None
        """all stages of the command, if it is known: so the progress can say how many are done"""
        self._done: dict[str, Output] = {}
        self._of: dict[Path, str] = {}
        self._given_up = _given_up(folder)

    def stage(
        self,
        stage: str,
        name: str,
        settings: Mapping[str, Any],
        inputs: Mapping[str, Output],
        build: Callable[[Path], None],
        code: Mapping[str, str] | None = None,
        *,
        shared: bool = False,
    ) -> Output:
        """The output on disk, or a new one if it was chosen; else one that is absent."""
        needs = {key: self.node_behind(output) for key, output in inputs.items()}
        node = node_of(stage, name, settings, code or {}, needs)
        self.nodes[node.id] = node
        output: Output | None = None
        if not any(isinstance(given, Absent) for given in inputs.values()):
            if self.chosen is not None and node.id not in self.chosen:
                wanted = Wanted(stage, name, settings, inputs, code or {})
                output = processes.from_main(lambda: wanted.find(self.folder))
            else:

                def make() -> Output:
                    return super(Walk, self).stage(stage, name, settings, inputs, build, code, shared=shared)

                output = self.attempt(node, make, shared=shared)
        output = output or Absent(self.folder / stage / f"{name}-absent-{node.id}", "")
        self._of[output.path] = node.id
        return output

    def attempt(self, node: Node, make: Callable[[], Output], *, shared: bool = False) -> Output | None:
        """What `make` gives; None if it fails, which is noted."""
        if node.id in self._given_up:
            self.errors[node.id] = DamnatioError(self._given_up[node.id])
            return None
        if processes.from_main(stop_requested):
            raise Stopped(f"Asked to stop before {node.title}: the same command goes on from there.")
        try:
            with prefixed(self._count()):
                made = make()
        except (Stopped, GroupEndedError):  # the first is no failure, and the second is noted where it happened
            raise
        except Exception as error:
            if _of_the_machine(error) or processes.lost_another(error):  # who ended notes why, and may be further on
                raise
            self.errors[node.id] = error
            self.say(f"{node.stage:<13} {node.name:<12} failed   {last_line(error)}")
            if shared and processes.size() > 1:
                record(self.folder, node.id, node.title, error)
                ended = GroupEndedError(f"{node.title}: {last_line(error)}")
                ended.is_news = not processes.is_main()  # it has said so already
                raise ended from error
            if processes.is_main():
                record(self.folder, node.id, node.title, error)
            return None
        if processes.is_main():
            clear(self.folder, node.id)
        return made

    def _count(self) -> str:
        """How many stages are done, by the run's folder."""
        if self.graph is None or not processes.is_main():
            return ""
        self._done = self.graph.done(self.folder, self._done)
        return f"[{len(self._done)} of {len(self.graph.nodes)}]"

    def __exit__(self, *what: object) -> None:
        """Leave the folder. If nothing was ever made in it, nothing is left."""
        with suppress(OSError):  # others may be at work
            (self.folder / LOCKS).rmdir()
        if processes.is_main() and {path.name for path in self.folder.glob("*")} <= LEFT:
            for name in LEFT:
                path = self.folder / name
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        super().__exit__(*what)

    def node_behind(self, output: Output) -> str:
        """The id of the node that gave this output; the output's key if it was brought from elsewhere."""
        return self._of.get(output.path, output.key)

    def conclude(self) -> None:
        """Raise what went wrong: the one error, or a list of several. Of a group, the main process reports it."""
        try:
            processes.wait()  # it may still print, and a process that ends in an error ends the others
        except RuntimeError as error:
            if not processes.lost_another(error):  # the others have nothing left to do
                raise
        errors = list(self.errors.items())
        if errors and not processes.is_main():
            raise processes.MainFailedError(last_line(errors[0][1]))
        if len(errors) == 1:
            raise errors[0][1]
        if errors:
            raise all_of({_title(self.nodes, node): last_line(error) for node, error in errors})


def _title(nodes: Mapping[str, Node], node: str) -> str:
    return nodes[node].title if node in nodes else node


def _given_up(folder: Path) -> dict[str, str]:
    """What failed already since this call began: a group that starts anew does not try it again."""
    launch = os.environ.get(LAUNCH)
    if not launch:
        return {}
    return {node: failure.error for node, failure in failures(folder).items() if failure.launch == launch}


def _of_the_machine(error: Exception) -> bool:
    """Whether an error is no fault of the stage, so that the next stage would meet it too."""
    return getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
