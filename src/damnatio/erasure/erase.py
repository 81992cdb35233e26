"""An erasure request from start to end: what the command `damnatio erase` and the function `damnatio.erase` do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from damnatio.erasure.record import Line, Record
from damnatio.erasure.request import GATE_AND_SCATTER, Request, check, need_free
from damnatio.models.gate import Gate, ungated
from damnatio.models.importing import import_model
from damnatio.recipe.files import model_settings
from damnatio.recipe.schema import Recipe

if TYPE_CHECKING:
    from damnatio.erasure.questions import Ask

Say = Callable[[str], None]


@dataclass(frozen=True)
class Erased:
    """The outcome of an erasure."""

    files: list[Path]
    """the altered model, in the format that the model came in; its card is beside it"""
    record: Record
    """the content of erasure.json"""
    page: Path
    """erasure.html"""
    report: Path | None
    """the folder of the report on the model before and after; None if nothing was measured"""
    recipe: Recipe | None
    """of the report"""

    @property
    def complete(self) -> bool:
        """Whether everybody asked for was forgotten."""
        return self.record.complete

    @property
    def people(self) -> list[Line]:
        return self.record.people


def erase(request: Request, say: Say = print, ask: "Ask | None" = None) -> Erased:
    """Forget the people, look at the written model, and record in `out` what was done; or restore people. `ask` asks
    the operator whether somebody is a person to forget; without it, what the request does not answer is an error."""
    own = [override for override in request.overrides if override.startswith(("model.", "plugins="))]
    settings = model_settings(request.model, own)
    check(request)
    need_free(request)
    if request.case is not None:  # what would fail after minutes fails now
        from damnatio.erasure.planning.making import check_case

        check_case(request)
    network, card = import_model(settings)
    if request.restore:
        from damnatio.erasure.restoring import restore

        return restore(request, settings, network, card, say)
    if request.method == GATE_AND_SCATTER:
        from damnatio.erasure.gated import erase_by_gate as carry_out
    else:
        from damnatio.erasure.trained import erase_by_training as carry_out
    return carry_out(request, settings, network, card, say, ask)


@dataclass(frozen=True)
class HiddenPerson:
    """Somebody whom a model hides."""

    pseudonym: str
    photographs: int
    """moments that the prototypes were made of"""
    cones: int
    begins: list[float]
    """the score to each prototype from which on a photograph is hidden"""
    caught: float
    """the share of new photographs that is expected to be hidden if nobody else is"""


def hidden(model: Path, overrides: Sequence[str] = ()) -> list[HiddenPerson]:
    """The people whom a model hides, in the order of their pseudonyms."""
    gate = ungated(import_model(model_settings(model, overrides))[0])[1]
    if not isinstance(gate, Gate):
        return []
    offsets = iter(gate.record.offsets())
    return [
        HiddenPerson(
            pseudonym=entry.pseudonym,
            photographs=entry.photographs,
            cones=len(entry.cones),
            begins=[next(offsets) for _ in entry.cones],
            caught=entry.caught,
        )
        for entry in gate.record.people
    ]
