"""A command while it works on a run: the view of the whole run, its time, and what TensorBoard reads."""

import argparse
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from damnatio.cli.showing import say, speaks

if TYPE_CHECKING:
    from damnatio.pipeline import Pipeline
    from damnatio.running.graph import Graph
    from damnatio.running.walking import Walk


@contextmanager
def watching(
    options: argparse.Namespace,
    pipelines: "dict[str, Pipeline]",
    graph: "Graph",
    walk: "Walk",
    *,
    slots: int = 1,
    together: int = 1,
) -> Iterator[None]:
    """Show the run in the block: first its time is estimated. `together` devices make one part. Every process of a
    group calls this, and the main process shows. A run whose faces are on another machine makes little, and is not
    shown."""
    if not graph.whole:
        yield
        return
    from damnatio.running.expecting import expect
    from damnatio.running.status import Look
    from damnatio.running.watching import LiveWatch, Watch, on_terminal
    from damnatio.support import processes

    kind = LiveWatch if on_terminal() else Watch
    title, count = getattr(options, "recipe", "demo"), max(processes.size(), getattr(options, "processes", 1))
    watch = kind(title, walk.say, options.started) if speaks() else None
    wanted = getattr(options, "tensorboard", False) or any(p.recipe.tensorboard for p in pipelines.values())
    before = walk.say
    with _scalars(wanted, graph, walk), watch or nullcontext():
        if watch is not None:
            walk.say = watch.say
        try:
            since = time.strftime("%Y-%m-%d %H:%M:%S")
            expected = processes.from_main(
                lambda: expect(pipelines, graph, walk.folder, walk.say, slots=slots, together=together, processes=count)
            )
            if watch is not None:
                watch.begin(Look(walk.folder, graph, expected, since))
            yield
        finally:
            walk.say = before


@contextmanager
def in_the_dark(options: argparse.Namespace, graph: "Graph", walk: "Walk", nodes: Collection[str]) -> Iterator[None]:
    """A task in the block, which another process or `damnatio status` shows. Only a person at a terminal sees more."""
    from damnatio.running.watching import on_terminal
    from damnatio.support.progress import Dark, shown_on

    shown = nullcontext() if on_terminal() else shown_on(Dark())
    with _scalars(getattr(options, "tensorboard", False), graph, walk, nodes), shown:
        yield


@contextmanager
def _scalars(wanted: bool, graph: "Graph", walk: "Walk", nodes: Collection[str] | None = None) -> Iterator[None]:
    if not (wanted and speaks()):
        yield
        return
    from damnatio.running.scalars import Scalars

    with Scalars(walk.folder, graph, nodes):
        yield


def show_status(options: argparse.Namespace) -> int:
    from damnatio.running.expecting import read
    from damnatio.running.graph import read_graph
    from damnatio.running.status import Look, text_of

    look = Look(options.run, read_graph(options.run), read(options.run))
    if options.watch:
        from damnatio.running.watching import watch_folder

        with suppress(KeyboardInterrupt):  # the run goes on
            watch_folder(look, look.graph.recipe, say)
    print(text_of(look()), flush=True)
    return 0
