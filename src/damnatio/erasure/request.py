"""What an erasure is asked for: paths and a few numbers. And where it is written, without overwriting anything."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from damnatio.galleries.items import is_text
from damnatio.methods import METHODS
from damnatio.support.errors import DamnatioError

PEOPLE, RETAIN, BYSTANDERS, DEVELOPMENT, TEST = "people", "retain", "bystanders", "development", "test"
GALLERY = "gallery"
WORK = "work"
"""the working folder inside the folder of the erasure"""
STRANGERS, GOAL = 1e-4, 0.9
GATE_AND_SCATTER, BURN_IN = "GS", "BI"


MONTH = timedelta(days=30)
"""the time for an answer (GDPR, Article 12(3): one month), counted so that no month makes it longer"""
CASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Case:
    """What makes an erasure of a model one of galleries and photographs as well: a plan is written."""

    id: str
    """of the operator's own register; never a name"""
    photos: Sequence[Path] = ()
    aliases: Sequence[str] = ()
    """other names under which the person may be stored"""
    likeness: float | None = None
    """the lowest cosine at which a row is a candidate; None: that from which on the altered model hides a photograph,
    or two photographs are linked, whichever is lower"""
    received: date | None = None
    deadline: date | None = None
    remains: Sequence[str] = ()
    """what nobody can reach from here, and until when it is kept"""
    recipients: Sequence[str] = ()
    """to whom the data were passed on"""
    runs: Sequence[Path] = ()
    """folders in which runs of damnatio are looked for"""
    key: Path | None = None


@dataclass(frozen=True)
class Request:
    """One erasure. `people` is unset only if somebody is restored."""

    model: Path
    out: Path
    people: Path | None = None
    retain: Path | None = None
    same: Sequence[str] = ()
    """names in a gallery that are a person to forget"""
    not_same: Sequence[str] = ()
    """names in RETAIN, the bystanders or a gallery that are somebody else, and are spared (`questions.py`)"""
    method: str = GATE_AND_SCATTER
    galleries: Sequence[str] = ()
    """addresses: their people are spared, and with a case they are searched for the person"""
    case: Case | None = None
    bystanders: Path | None = None
    development: Path | None = None
    test: Path | None = None
    strangers: float = STRANGERS
    """the share of strangers that all cones of the gate may catch together"""
    goal: float = GOAL
    """a person of whom a smaller share of held-out photographs is measured to be hidden is not forgotten"""
    restore: Sequence[str] = ()
    keep_work: bool = False
    freeze: str = ""
    """the last cut point that stays as it is where the network is trained; unset: the usual one on a processor and none
    on a GPU; `none`: all of the network is trained"""
    resize: bool = False
    accept_unmeasured: bool = False
    """the operator accepts people who are hidden and not measured, and an unknown share of strangers touched"""
    overrides: Sequence[str] = ()

    @property
    def work(self) -> Path:
        return self.out / WORK

    def sources(self) -> dict[str, Path]:
        """The sources of faces by the name of their pool."""
        given = {
            PEOPLE: self.people,
            RETAIN: self.retain,
            DEVELOPMENT: self.development,
            TEST: self.test,
            BYSTANDERS: self.bystanders,
        }
        return {name: path for name, path in given.items() if path is not None}


def check(request: Request) -> None:
    """Refuse what no model can change."""
    if not 0 < request.goal <= 1:
        raise DamnatioError(f"--goal {request.goal:g}: it is a share above 0, at most 1.")
    if not 0 < request.strangers < 0.5:
        raise DamnatioError(f"--strangers {request.strangers:g}: it is a share above 0 and below 0.5.")
    if request.restore:
        given = [*request.sources(), *(["case"] if request.case else []), *([GALLERY] if request.galleries else [])]
        if given:
            raise DamnatioError(
                f"--restore takes people out of a gate, and {given[0].upper()} is for another request: give MODEL and "
                "--out alone, and erase in a second call."
            )
        return
    if request.case is not None:
        _check_case(request, request.case)
    if request.people is None:
        raise DamnatioError("Say whom to forget (PEOPLE), or --list, or --restore PSEUDONYM.")
    METHODS.get(request.method)
    if request.method != GATE_AND_SCATTER and request.retain is None:
        raise DamnatioError(
            f"The method {request.method} trains the network, and needs faces of people who must stay recognised: "
            f"give RETAIN, or take the method {GATE_AND_SCATTER}, which needs none."
        )
    if request.retain is None:
        alone = next((name for name in (TEST, DEVELOPMENT, BYSTANDERS) if name in request.sources()), None)
        if alone:
            raise DamnatioError(
                f"--{alone} is for measuring, which needs RETAIN as well: give RETAIN, or leave it out."
            )


def _check_case(request: Request, case: Case) -> None:
    if CASE.fullmatch(case.id) is None:
        raise DamnatioError(
            f"--case {case.id}: at most 64 letters, digits, dots, dashes and underscores, as in 2026-0817."
        )
    texts = {"out": [str(request.out)], "alias": case.aliases, "remains": case.remains, "recipient": case.recipients}
    for option, given in texts.items():
        if wrong := next((text for text in given if not is_text(text)), None):
            raise DamnatioError(f"--{option} {wrong}: that is no text (UTF-8), and no plan can hold it.")
    if missing := next((folder for folder in case.runs if not folder.is_dir()), None):
        raise DamnatioError(f"--runs {missing}: there is no such folder.")
    if case.deadline is None and (case.received or date.today()) > date.max - MONTH:
        raise DamnatioError(f"--received {case.received}: the answer would be due after the last year, 9999.")
    if not request.galleries and not case.photos:
        raise DamnatioError(
            f"The case {case.id} needs somewhere to look: name each gallery with --gallery, and folders of photographs "
            "with --photos."
        )
    if case.likeness is not None and not 0 < case.likeness < 1:
        raise DamnatioError(f"--likeness {case.likeness:g}: it is a cosine above 0 and below 1.")
    if case.received and case.deadline and case.deadline < case.received:
        raise DamnatioError(f"The deadline {case.deadline} is before {case.received}, when the request was received.")


def need_free(request: Request) -> None:
    """Refuse a folder that holds something else than the working folder of an unfinished erasure."""
    out = request.out
    if out.is_dir() and any(entry.name != WORK for entry in out.iterdir()):
        raise DamnatioError(
            f"{out} holds an erasure or other files already, and outputs are never overwritten: name another folder "
            "with --out."
        )
