"""The templates of a request: what galleries are searched with, before the purge and after it.

Every photograph, every prototype and the mean of a person under f*, each with its own bar. OUT/person.npz keeps them
until the record is signed, for the search after the purge: personal data, zeroed and removed with the signature.
"""

import hashlib
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from damnatio.erasure.verdict import LINKED
from damnatio.galleries.files import cleared
from damnatio.galleries.finding import EQUAL, units_of
from damnatio.galleries.items import Units
from damnatio.methods.gate_widths import cone_around
from damnatio.methods.strangers import ENOUGH, mean_direction
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular

if TYPE_CHECKING:
    from damnatio.erasure.gating import Plan as Gating

PERSON = "person.npz"


@dataclass(frozen=True)
class Templates:
    units: Units
    labels: list[str]
    """what each one is"""
    bars: NDArray[np.float64]
    """the lowest cosine to each at which a row is a candidate"""
    measured: int
    """the strangers on whom the bars were measured; 0: they rest on the card of the model, or on defaults"""

    def write(self, folder: Path) -> str:
        """Keep them in a file that only its owner can read. Returns its SHA-256."""
        content = io.BytesIO()
        labels, measured = np.array(self.labels, dtype=str), np.array(self.measured)
        np.savez(content, units=self.units, labels=labels, bars=self.bars, measured=measured)
        descriptor = os.open(folder / PERSON, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.getvalue())
            file.flush()
            os.fsync(file.fileno())
        return hashlib.sha256(content.getvalue()).hexdigest()

    @staticmethod
    def read(folder: Path, sha256: str) -> "Templates":
        """The templates of the plan with this hash of them."""
        path = folder / PERSON
        need_regular(path, "The templates of the request")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DamnatioError(
                f"{path} cannot be read ({error.strerror}): it is needed to search the stores again after the purge. "
                "Put it back, or make a new plan."
            ) from None
        if hashlib.sha256(content).hexdigest() != sha256:
            raise DamnatioError(f"{path} is not the file of the plan any more: nothing was deleted. Make a new plan.")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return Templates(file["units"], [str(one) for one in file["labels"]], file["bars"], int(file["measured"]))


def remove_templates(folder: Path) -> None:
    """Zero and remove the file, if it is one."""
    path = folder / PERSON
    if path.is_file() and not path.is_symlink():
        with path.open("r+b", buffering=0) as file:
            cleared(file)
        path.unlink()


def templates_of(gating: "Gating", likeness: float | None, dim: int) -> Templates:
    """The bar of each template is what 1 in 10,000 strangers exceeds; of prototypes and means no more than where the
    gate hides photographs; never so high that a copy would be missed."""
    units, labels, most = list[Units](), list[str](), list[float]()

    def add(label: str, unit: NDArray[np.floating], at_most: float = EQUAL) -> None:
        units.append(units_of(np.asarray(unit)[None])[0])
        labels.append(label)
        most.append(min(at_most, EQUAL))

    for person in gating.people:
        chosen = gating.chosen(person.name)
        begins = chosen.offset if chosen is not None and chosen.member is not None else EQUAL
        for image, unit in zip(person.images, person.every, strict=True):
            left_out = chosen is not None and image in chosen.suspects
            add(f"photograph {image}{', left out of the gate' if left_out else ''}", unit)
        prototypes: Sequence[NDArray[np.floating]] = () if chosen is None or chosen.member is None else list(
            chosen.member.directions
        )  # fmt: skip
        for number, unit in enumerate(prototypes, 1):
            add(f"prototype {number} of {person.name}", unit, begins)
        if len(person.every):
            used = np.isin(person.kept, [] if chosen is None else chosen.suspects, invert=True)
            add(f"mean of {person.name}", mean_direction(person.units[used] if used.any() else person.units), begins)
    strangers, statistics = gating.strangers, gating.hidden.statistics
    bars = [
        min(at_most, cone_around(unit.astype(np.float64), strangers, statistics).offset(statistics.tail, LINKED))
        for unit, at_most in zip(units, most, strict=True)
    ]
    return Templates(
        units=np.stack(units) if units else np.empty((0, dim), np.float32),
        labels=labels,
        bars=np.array(bars if likeness is None else [likeness] * len(bars), dtype=np.float64),
        measured=len(strangers) if strangers is not None and len(strangers) >= ENOUGH else 0,
    )
