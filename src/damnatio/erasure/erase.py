"""An erasure request from start to end: what the command `damnatio erase` and the function `damnatio.erase` do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from damnatio.erasure.record import Line, Record
from damnatio.erasure.request import GATE_AND_SCATTER, Request, check, need_free
from damnatio.erasure.verdict import HOLDS, Judged, OnModel, on_model, on_person, still_holds
from damnatio.models.gate import Gate, ungated
from damnatio.models.importing import import_model
from damnatio.models.statistics import Touched
from damnatio.recipe.files import model_settings
from damnatio.recipe.schema import Recipe
from damnatio.support.files import private

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
        """Whether everybody asked for was measured to be forgotten, and the share of strangers touched is known."""
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
    if request.case is None:
        return carry_out(request, settings, network, card, say, ask)
    with private():
        if request.out.is_dir():
            request.out.chmod(0o700)
        return carry_out(request, settings, network, card, say, ask)


@dataclass(frozen=True)
class HiddenPerson:
    """Somebody whom a model hides, and the verdict by what was measured when the person was hidden."""

    pseudonym: str
    photographs: int
    """moments that the prototypes were made of"""
    cones: int
    begins: list[float]
    """the score to each prototype from which on a photograph is hidden"""
    judged: Judged


@dataclass(frozen=True)
class HiddenPeople:
    """Whom a model hides, in the order of their pseudonyms."""

    people: list[HiddenPerson]
    verdict: OnModel | None
    """None: the model hides nobody"""
    strangers: str
    """the share of strangers touched, as a sentence"""
    holds: str = HOLDS["GS"]


def hidden(model: Path, overrides: Sequence[str] = ()) -> list[HiddenPerson]:
    """The people whom a model hides, in the order of their pseudonyms."""
    return listed(model, overrides).people


def listed(model: Path, overrides: Sequence[str] = ()) -> HiddenPeople:
    """The people whom a model hides, with the verdict on all of them."""
    gate = ungated(import_model(model_settings(model, overrides))[0])[1]
    if not isinstance(gate, Gate):
        return HiddenPeople([], None, "")
    begins = gate.record.begins()
    held = [still_holds(entry.held, begins[entry.pseudonym]) for entry in gate.record.people]
    touched = gate.record.touched or Touched(how="unknown", aim=gate.record.strangers)
    verdict = on_model([(on_person(each), each) for each in held], touched)
    people = [
        HiddenPerson(entry.pseudonym, entry.photographs, len(entry.cones), begins[entry.pseudonym], judged)
        for entry, judged in zip(gate.record.people, verdict.people, strict=True)
    ]
    return HiddenPeople(people, verdict, touched.sentence)
