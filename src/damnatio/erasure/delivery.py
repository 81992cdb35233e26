"""What an erasure leaves in its folder: the model, the report, the record and the page.

All of it is made in the working folder and moved when it is whole. The working folder, which may hold pixels and
embeddings, is then removed.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damnatio import __version__
from damnatio.erasure.page import write_page
from damnatio.erasure.record import JSON, PAGE, File, Record
from damnatio.erasure.request import Request
from damnatio.recipe.schema import Recipe
from damnatio.support.files import digest_of, write_atomically
from damnatio.workspace import Workspace

if TYPE_CHECKING:
    from damnatio.erasure.erase import Erased
    from damnatio.erasure.gating import Plan as Gating

REPORT, READY = "report", "ready"
REMOVED = "The working folder was removed: it may have held pixels and embeddings of the people."
KEPT = "The working folder was kept (--keep-work). It holds pixels and embeddings of the people: remove it yourself."


def file_name(model: Path, suffix: str, method: str) -> str:
    """The name of the altered model. A model that the method altered already keeps its name."""
    ending = f"-{method}" if method else ""
    stem = model.stem if model.is_file() else model.resolve().name
    return f"{stem.removesuffix(ending) if ending else stem}{ending}{suffix}"


@contextmanager
def working(request: Request, say: Callable[[str], None]) -> "Iterator[Delivery]":
    """The delivery of a request. A request that fails leaves nothing; one that is killed leaves its working folder,
    from which the same command goes on."""
    fresh = not request.out.exists()
    with Workspace(request.work, say=say, alone=True) as workspace:
        try:
            yield Delivery(request, workspace)
        except Exception:
            if not request.keep_work:
                shutil.rmtree(workspace.folder, ignore_errors=True)
                with suppress(OSError):
                    if fresh:
                        request.out.rmdir()
            raise


class Delivery:
    """The outputs of one erasure, before they are delivered."""

    def __init__(self, request: Request, workspace: Workspace) -> None:
        self.request, self.workspace = request, workspace
        self._ready = workspace.folder / READY
        shutil.rmtree(self._ready, ignore_errors=True)  # of a call that was killed
        self._ready.mkdir()
        self._models: list[str] = []

    def staged(self, name: str) -> Path:
        """Where a model file is written before it is delivered."""
        if name not in self._models:
            self._models.append(name)
        return self._ready / name

    def record(self, model: Path, **content: Any) -> Record:
        """The record of the erasure, with the hashes of what is delivered."""
        return Record(
            damnatio=__version__,
            finished=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            method=self.request.method,
            goal=self.request.goal,
            model=_file(model),
            files=[_file(path) for path in sorted(self._ready.iterdir())],
            work=KEPT if self.request.keep_work else REMOVED,
            **content,
        )

    def deliver(self, record: Record, reported: Recipe | None = None, gating: "Gating | None" = None) -> "Erased":
        """Write the record and the page, move everything to its place, and remove the working folder."""
        from damnatio.erasure.erase import Erased

        out, made = self.request.out, self.workspace.folder / REPORT
        if reported is not None:
            record = record.model_copy(update={"report": REPORT})
            shutil.copytree(made, self._ready / REPORT)
        if self.request.case is not None:
            from damnatio.erasure.planning.making import make_plan

            assert gating is not None
            make_plan(self.request, record, gating, self._ready / self._models[0], self._ready, self.workspace.say)
        write_page(record, self._ready / PAGE, made if reported is not None else None)
        write_atomically(self._ready / JSON, record.model_dump_json(indent=1, exclude_none=True) + "\n")
        last = JSON  # its presence says that the rest is whole
        for path in sorted(self._ready.iterdir(), key=lambda path: (path.name == last, path.name)):
            path.rename(out / path.name)
        self._ready.rmdir()
        if not self.request.keep_work:
            shutil.rmtree(self.workspace.folder)
        self.workspace.say(record.work)
        return Erased(
            files=[out / name for name in self._models],
            record=record,
            page=out / PAGE,
            report=out / REPORT if reported is not None else None,
            recipe=reported,
        )


def _file(path: Path) -> File:
    return File(name=path.name, bytes=path.stat().st_size, sha256=digest_of(path))
