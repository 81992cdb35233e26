"""What a scan says.

- GONE: no fragment of the person is in the files, and a person who stays was seen in them.
- BLIND: no fragment was found, but nobody who stays was seen either: the files are written in a way that the scan does
  not know.
- UNREACHED: the files could not be read.
- RESIDUE: fragments of the person are in the files.

The verdict on a store is the worst of its classes of files, in this order. A class without any bytes is GONE.
A fragment that a row which stays had before the delete too, such as the same template under another name, is nobody's
residue. One that came into such a row afterwards is.
"""

from typing import Literal

from damnatio.galleries.items import Frozen

Verdict = Literal["GONE", "BLIND", "UNREACHED", "RESIDUE"]
ORDER: tuple[Verdict, ...] = ("GONE", "BLIND", "UNREACHED", "RESIDUE")


class ClassScan(Frozen):
    """One class of files."""

    name: str
    verdict: Verdict
    files: int
    bytes: int
    found: int
    """different fragments of the person that were found"""
    fragments: int
    """different fragments of the person that were looked for"""
    shared: int = 0
    """further fragments that were found and are also those of a row that stays: they cannot be told apart"""
    control_found: int
    control_fragments: int
    encodings: dict[str, int]
    """found fragments of the person, by how they were written"""
    where: list[str]
    """a few places, as "file at byte n" """
    reason: str = ""
    """why the class is BLIND or UNREACHED"""


class Scan(Frozen):
    """All classes of files of one store."""

    verdict: Verdict
    classes: list[ClassScan]
    seconds: float

    @property
    def found(self) -> int:
        return sum(one.found for one in self.classes)


def worst(verdicts: list[Verdict]) -> Verdict:
    return max(verdicts, key=ORDER.index, default="GONE")
