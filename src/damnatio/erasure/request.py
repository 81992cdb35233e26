"""What an erasure is asked for: paths and a few numbers. And where it is written, without overwriting anything."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from damnatio.methods import METHODS
from damnatio.support.errors import DamnatioError

PEOPLE, RETAIN, BYSTANDERS, DEVELOPMENT, TEST = "people", "retain", "bystanders", "development", "test"
GALLERY = "gallery"
WORK = "work"
"""the working folder inside the folder of the erasure"""
STRANGERS, GOAL = 1e-4, 0.9
GATE_AND_SCATTER, BURN_IN = "GS", "BI"


@dataclass(frozen=True)
class Request:
    """One erasure. `people` is unset only if somebody is restored."""

    model: Path
    out: Path
    people: Path | None = None
    retain: Path | None = None
    method: str = GATE_AND_SCATTER
    gallery: Path | None = None
    bystanders: Path | None = None
    development: Path | None = None
    test: Path | None = None
    strangers: float = STRANGERS
    """the share of strangers that all cones of the gate may catch together"""
    goal: float = GOAL
    """the share of a person's new photographs that must be lost to the model for the person to count as forgotten"""
    restore: Sequence[str] = ()
    keep_work: bool = False
    freeze: str = ""
    """the last cut point that stays as it is where the network is trained; unset: the usual one on a processor and none
    on a GPU; `none`: all of the network is trained"""
    resize: bool = False
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
        given = [*request.sources(), *([GALLERY] if request.gallery else [])]
        if given:
            raise DamnatioError(
                f"--restore takes people out of a gate, and {given[0].upper()} is for another request: give MODEL and "
                "--out alone, and erase in a second call."
            )
        return
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


def need_free(request: Request) -> None:
    """Refuse a folder that holds something else than the working folder of an unfinished erasure."""
    out = request.out
    if out.is_dir() and any(entry.name != WORK for entry in out.iterdir()):
        raise DamnatioError(
            f"{out} holds an erasure or other files already, and outputs are never overwritten: name another folder "
            "with --out."
        )
