"""Files of damnatio itself, and of the request, that hold the person and that no purge touches."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from damnatio.erasure.planning.plan import JSON, PAGE, Leftover, RunKind
from damnatio.erasure.planning.templates import PERSON
from damnatio.erasure.record import JSON as ERASURE_JSON
from damnatio.erasure.record import PAGE as ERASURE_PAGE
from damnatio.erasure.request import GATE_AND_SCATTER, Request
from damnatio.galleries.finding import Names
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table

FACES = "1-faces"
OF_RUNS: dict[RunKind, tuple[tuple[str, ...], str]] = {
    "photographs": ((FACES, "2-captures", "3-partitions", "report"), "pixels, names and figures"),
    "embeddings": (("4-trunk", "6-embed", "7-evaluate"), "cached embeddings and scores"),
    "checkpoints": (
        ("4-train", "5-forget"),
        "checkpoints that were trained while the person was among the faces; train anew without the person",
    ),
}
"""what the stages of a run hold of the people in it"""


def leftovers(request: Request, names: Sequence[str]) -> list[Leftover]:
    """Each with what it holds and what to do about it."""
    case, out = request.case, request.out
    assert case is not None
    found = [
        Leftover(
            path=str(request.people),
            what="the photographs of the request: needed to measure the model again; remove them when the case closes",
        ),
        Leftover(
            path=", ".join(str(out / name) for name in (JSON, PAGE, ERASURE_JSON, ERASURE_PAGE)),
            what="working papers that name the person: keep them with the case, or destroy them after the record",
        ),
    ]
    what = (
        "the templates of the request, for the search after the purge, which zeroes and removes them with the "
        f"signature. If no purge follows: rm {out / PERSON}"
    )
    found.append(Leftover(path=str(out / PERSON), what=what))
    if request.method == GATE_AND_SCATTER:
        what = "the altered model, which holds a suppression template of the person: treat it as personal data"
        found.append(Leftover(path=str(out), what=what))
    if request.keep_work:
        found.append(Leftover(path=str(request.work), what="the working folder, kept with --keep-work: remove it"))
    return found + [left for folder in case.runs for run, name in runs_with(folder, names) for left in _held(run, name)]


def _held(run: Path, name: str) -> Iterator[Leftover]:
    """What a run holds of the person. A purge cuts nothing out of it: its outputs are known by the hash of what they
    were made from, and no person can be cut out of weights."""
    for kind, (stages, what) in OF_RUNS.items():
        if there := [str(run / stage) for stage in stages if (run / stage).is_dir()]:
            said = f"of a run of damnatio with {name}: {what}. Remove it: rm -r {' '.join(there)}"
            yield Leftover(path=", ".join(there), what=said, kind=kind)


def runs_with(folder: Path, names: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """The runs below a folder whose faces show somebody of these names."""
    wanted = Names(names)
    for stage in sorted({table.parents[1] for table in folder.glob(f"**/{FACES}/*/faces.parquet")}):
        if name := next((name for name in _identities(stage) if wanted.match(name) is not None), None):
            yield stage.parent, name


def _identities(stage: Path) -> Iterator[str]:
    for table in sorted(stage.glob("*/faces.parquet")):
        try:
            yield from sorted({str(name).rpartition("/")[2] for name in Table.read(table)["identity"]})
        except (OSError, ValueError, KeyError, DamnatioError):  # an unfinished or older run
            continue
